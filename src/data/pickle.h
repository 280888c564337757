// A reader of pickles that builds data only: numbers, strings, tuples, lists, dictionaries, and records of the calls a
// pickle asks for, which nobody makes. What is read takes at most kPickleFactor bytes of memory for each byte of the
// file, however its parts refer to each other.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hastings {

constexpr uint64_t kPickleFactor = 256;

struct Pickled;
using PickledRef = Pickled*;
// Owns every part: they may refer to each other, in circles too, and go all at once.
using PickleArena = std::deque<Pickled>;

struct Pickled {
  enum class Kind {
    kNone,
    kInt,
    kFloat,
    kString,
    kTuple,
    kList,
    kDict,
    kGlobal,
    kCall,
    kPersistent
  } kind = Kind::kNone;
  int64_t number = 0;
  double real = 0;
  std::string text;               // kString; kGlobal: "module.name"; kCall: the name of what is called
  std::vector<PickledRef> items;  // kTuple, kList, kCall: the arguments; kPersistent: the one id
  std::vector<std::pair<PickledRef, PickledRef>> entries;  // kDict, and what was added to a kCall (an OrderedDict)
};

// Reads one pickle from the front of `bytes` and takes it off; its parts live in the arena. `file` is for errors.
PickledRef read_pickle(const std::string& file, std::string_view& bytes, PickleArena& arena);

}  // namespace hastings

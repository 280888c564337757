#include "pickle.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>

#include "hastings/core/error.h"

namespace hastings {
namespace {

using Kind = Pickled::Kind;

// The machine of Python's pickle format (protocols 2 to 5), without the opcodes that a dictionary of tensors never
// needs.
class Machine {
 public:
  Machine(const std::string& file, std::string_view& bytes, PickleArena& arena)
      : file_(file), bytes_(bytes), arena_(arena), left_(kPickleFactor * bytes.size()) {}

  PickledRef run() {
    while (true) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') return pop();
      step(code);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(fmt::format("{}: {}", file_, what)); }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) fail("ends in the middle of a pickle");
    const auto out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return out;
  }

  uint64_t little(int width) {
    const auto raw = take(static_cast<uint64_t>(width));
    uint64_t value = 0;
    for (int i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(raw[static_cast<size_t>(i)]);
    return value;
  }

  std::string line() {
    const auto end = bytes_.find('\n');
    if (end == std::string_view::npos) fail("ends in the middle of a pickle");
    std::string out(bytes_.substr(0, end));
    bytes_.remove_prefix(end + 1);
    return out;
  }

  // Accounts for memory: a part may be copied by an opcode much shorter than itself.
  void charge(uint64_t size) {
    if (size > left_)
      fail(fmt::format("is not a sound pickle: it would take more than {} times its size", kPickleFactor));
    left_ -= size;
  }
  PickledRef make(Kind kind) {
    charge(sizeof(Pickled));
    arena_.emplace_back().kind = kind;
    return &arena_.back();
  }
  void push(PickledRef value) {
    charge(sizeof(PickledRef));
    stack_.push_back(value);
  }
  void push_int(int64_t value) {
    auto out = make(Kind::kInt);
    out->number = value;
    push(out);
  }
  void push_text(Kind kind, std::string text) {
    auto out = make(kind);
    charge(text.size());
    out->text = std::move(text);
    push(out);
  }
  PickledRef pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("is not a sound pickle");
    auto out = stack_.back();
    stack_.pop_back();
    return out;
  }
  PickledRef top() {
    if (stack_.empty()) fail("is not a sound pickle");
    return stack_.back();
  }
  std::vector<PickledRef> pop_to_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) fail("is not a sound pickle");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickledRef> out(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return out;
  }
  void push_tuple(size_t count) {
    auto out = make(Kind::kTuple);
    out->items.resize(count);
    for (size_t i = count; i-- > 0;) out->items[i] = pop();
    push(out);
  }
  void remember(uint64_t key) {
    charge(64);  // of a node of the map
    memo_[key] = top();
  }
  void recall(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("is not a sound pickle");
    push(found->second);
  }
  void add_entries(const std::vector<PickledRef>& flat) {
    if (flat.size() % 2 != 0) fail("is not a sound pickle");
    auto target = top();
    charge(flat.size() * sizeof(PickledRef));
    for (size_t i = 0; i < flat.size(); i += 2) target->entries.emplace_back(flat[i], flat[i + 1]);
  }
  int64_t long_of(uint64_t width) {
    if (width > 16) fail("has a number of impossible size");
    const auto raw = take(width);
    uint64_t value = 0;
    for (size_t i = 0; i < raw.size() && i < 8; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    if (width > 0 && width < 8 && (static_cast<unsigned char>(raw.back()) & 0x80) != 0)
      value |= ~uint64_t{0} << (8 * width);
    return static_cast<int64_t>(value);  // the low 64 bits are all that is ever looked at
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:
        take(1);
        break;  // PROTO
      case 0x95:
        take(8);
        break;  // FRAME
      case '(':
        charge(sizeof(size_t));
        marks_.push_back(stack_.size());
        break;  // MARK
      case '0':
        pop();
        break;  // POP
      case '1':
        pop_to_mark();
        break;  // POP_MARK
      case '2':
        push(top());
        break;  // DUP
      case 'N':
        push(make(Kind::kNone));
        break;  // NONE
      case 0x88:
        push_int(1);
        break;  // NEWTRUE
      case 0x89:
        push_int(0);
        break;  // NEWFALSE
      case 'K':
        push_int(static_cast<int64_t>(little(1)));
        break;  // BININT1
      case 'M':
        push_int(static_cast<int64_t>(little(2)));
        break;  // BININT2
      case 'J':
        push_int(static_cast<int32_t>(little(4)));
        break;  // BININT
      case 0x8a:
        push_int(long_of(little(1)));
        break;  // LONG1
      case 0x8b:
        push_int(long_of(little(4)));
        break;     // LONG4
      case 'G': {  // BINFLOAT, big-endian
        const auto raw = take(8);
        uint64_t bits = 0;
        for (const char c : raw) bits = bits << 8 | static_cast<unsigned char>(c);
        auto out = make(Kind::kFloat);
        std::memcpy(&out->real, &bits, 8);
        push(out);
        break;
      }
      case 'X':
        push_text(Kind::kString, std::string(take(little(4))));
        break;  // BINUNICODE
      case 0x8c:
        push_text(Kind::kString, std::string(take(little(1))));
        break;  // SHORT_BINUNICODE
      case 0x8d:
        push_text(Kind::kString, std::string(take(little(8))));
        break;  // BINUNICODE8
      case 'U':
      case 'C':
        push_text(Kind::kString, std::string(take(little(1))));
        break;  // SHORT_BINSTRING, SHORT_BINBYTES
      case 'T':
      case 'B':
        push_text(Kind::kString, std::string(take(little(4))));
        break;  // BINSTRING, BINBYTES
      case '}':
        push(make(Kind::kDict));
        break;  // EMPTY_DICT
      case ']':
        push(make(Kind::kList));
        break;  // EMPTY_LIST
      case ')':
        push(make(Kind::kTuple));
        break;  // EMPTY_TUPLE
      case 0x8f:
        push(make(Kind::kList));
        break;     // EMPTY_SET
      case 't': {  // TUPLE
        auto out = make(Kind::kTuple);
        out->items = pop_to_mark();
        push(out);
        break;
      }
      case 'l': {  // LIST
        auto out = make(Kind::kList);
        out->items = pop_to_mark();
        push(out);
        break;
      }
      case 'd': {  // DICT
        const auto flat = pop_to_mark();
        push(make(Kind::kDict));
        add_entries(flat);
        break;
      }
      case 0x85:
        push_tuple(1);
        break;  // TUPLE1..3
      case 0x86:
        push_tuple(2);
        break;
      case 0x87:
        push_tuple(3);
        break;
      case 'q':
        remember(little(1));
        break;  // BINPUT
      case 'r':
        remember(little(4));
        break;  // LONG_BINPUT
      case 0x94:
        remember(memo_.size());
        break;  // MEMOIZE
      case 'h':
        recall(little(1));
        break;  // BINGET
      case 'j':
        recall(little(4));
        break;     // LONG_BINGET
      case 'a': {  // APPEND
        auto value = pop();
        top()->items.push_back(value);
        break;
      }
      case 'e':
      case 0x90: {  // APPENDS, ADDITEMS
        const auto values = pop_to_mark();
        charge(values.size() * sizeof(PickledRef));
        auto& items = top()->items;
        items.insert(items.end(), values.begin(), values.end());
        break;
      }
      case 's': {  // SETITEM
        auto value = pop();
        auto key = pop();
        add_entries({key, value});
        break;
      }
      case 'u': {  // SETITEMS
        const auto flat = pop_to_mark();
        add_entries(flat);
        break;
      }
      case 'c': {  // GLOBAL
        const std::string module = line();
        push_text(Kind::kGlobal, module + "." + line());
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const auto name = pop(), module = pop();
        charge(name->text.size() + module->text.size());
        push_text(Kind::kGlobal, module->text + "." + name->text);
        break;
      }
      case 'R':
      case 0x81: {  // REDUCE, NEWOBJ: noted, not called
        const auto arguments = pop(), callee = pop();
        auto out = make(Kind::kCall);
        charge(callee->text.size() + arguments->items.size() * sizeof(PickledRef));
        out->text = callee->text;
        out->items = arguments->items;
        push(out);
        break;
      }
      case 'b':
        pop();
        break;     // BUILD: attributes of an object that is not built
      case 'Q': {  // BINPERSID
        auto id = pop();
        auto out = make(Kind::kPersistent);
        out->items = {id};
        push(out);
        break;
      }
      default:
        fail(fmt::format("asks for pickle opcode 0x{:02x}, which a dictionary of tensors does not need", code));
    }
  }

  const std::string& file_;
  std::string_view& bytes_;
  PickleArena& arena_;
  uint64_t left_;  // bytes of memory that may still be taken
  std::vector<PickledRef> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PickledRef> memo_;
};

}  // namespace

PickledRef read_pickle(const std::string& file, std::string_view& bytes, PickleArena& arena) {
  return Machine(file, bytes, arena).run();
}

}  // namespace hastings

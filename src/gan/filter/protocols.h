// One factory a protocol, each in the file of its name.
#pragma once

#include "hastings/gan/filter/protocol.h"

namespace hastings {

using MadeProtocol = std::unique_ptr<Protocol>;

MadeProtocol make_plain(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);
MadeProtocol make_chain(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);
MadeProtocol make_restarts(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);
MadeProtocol make_generated(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);
MadeProtocol make_rejection(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);
MadeProtocol make_top(const FilterOptions& options, std::vector<double> real_scores, const Streams& streams);

}  // namespace hastings

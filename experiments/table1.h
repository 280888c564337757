// Table 1 in two halves: table1.cpp computes its cells, table1_page.cpp makes tables and a figure of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hastings/baseline/learned_kernels.h"
#include "measure.h"
#include "reproduce.h"

namespace hastings::reproduce::table1_parts {

constexpr int kChains = 64;

inline const std::vector<std::pair<std::string, std::string>> kMethods = {
    {"hmc", "HMC"}, {"a-nice-mc", "A-NICE-MC"}, {"l2hmc", "L2HMC"}, {"ar", "AR"}, {"arlb", "ARLB"}, {"vi", "VI"}};

inline bool is_flow(const std::string& method) { return method == "ar" || method == "arlb" || method == "vi"; }

inline std::string key_of(const Row& row, const std::string& method, uint64_t seed) {
  return row.name + "-" + method + "-" + std::to_string(seed);
}

inline std::string speed_key(const Row& row) { return row.name + "-speed"; }

// Settings of a row, the same for every seed.
FitOptions flow_settings(const Row& row, const std::string& objective, bool modes, uint64_t seed, bool quick);
L2hmcOptions l2hmc_settings(int64_t dim, bool modes, uint64_t seed, bool quick);
AniceOptions anice_settings(const Row& row, uint64_t seed, bool quick);

// CSV, Markdown and figure of all finished cells, also those of earlier runs.
void write_page(Context& context, const std::vector<Row>& rows);

}  // namespace hastings::reproduce::table1_parts

// Options that the commands on GANs share.
#pragma once

#include <set>

#include "command.h"
#include "hastings/run/gan_run.h"

namespace hastings::app {

void add_data_options(CLI::App& command, GanData& data);
void add_threads(CLI::App& command, int& threads);
// The options that were given, by their long names.
std::set<std::string> given(const CLI::App& command);
std::function<void(const std::string&)> told(const Voice& voice);

}  // namespace hastings::app

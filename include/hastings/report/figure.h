// Figures, drawn by gnuplot: PNG and SVG, with their data and script kept beside them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace hastings {

class OutputFolder;

enum class Draw {
  kLine,
  kPoints,
  kBars,
  kBand,    // x, lower, upper: a shaded band
  kErrors,  // x, y, error, joined by lines
  kMarks,   // x, y, perhaps error: single large points
  kHeat,    // x, y, value on a regular grid, row by row
  kLevels,  // the same with level lines on top
};

struct PlotLayer {
  Draw draw = Draw::kLine;
  std::string title;                         // empty: not in the key
  std::vector<std::vector<double>> columns;  // of equal length
  int color = 0;                             // of a palette safe for colour-blind readers; -1: grey
  bool dashed = false;
  int64_t row_length = 0;  // kHeat, kLevels: points in a row of the grid
};

struct Panel {
  std::string title, x_label, y_label;
  std::vector<PlotLayer> layers = {};
  bool log_x = false, log_y = false, equal_axes = false;
  std::optional<std::array<double, 2>> x_range = {}, y_range = {};
  std::string key = "top right";          // where the names of the layers stand
  std::vector<std::string> x_names = {};  // stand at x = 0, 1, ... instead of numbers
};

struct Figure {
  std::vector<Panel> panels;
  int columns = 1;                // panels side by side
  int width = 520, height = 400;  // of a panel, in pixels
};

// Writes STEM.png, STEM.svg, STEM.dat and STEM.gp. Without gnuplot it throws ConfigError; data and script are there.
void write_figure(const std::string& stem, const Figure& figure);
// The same as files of a folder of ours; returns the stem.
std::string write_figure(OutputFolder& folder, const std::string& name, const Figure& figure);

}  // namespace hastings

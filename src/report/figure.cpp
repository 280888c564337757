#include "hastings/report/figure.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "../core/process.h"
#include "../core/temporary_folder.h"
#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/core/output_folder.h"

namespace hastings {
namespace {

// Okabe and Ito's colours (2008).
const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
const char* kGrey = "#999999";

std::string color_of(int color) { return color < 0 ? kGrey : kColors[static_cast<size_t>(color) % std::size(kColors)]; }

// In single quotes: within double ones gnuplot runs what stands in backticks, and names come from users' files.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += c;
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "'";
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.8g}", value) : "NaN"; }

// One block for each layer; blocks are two blank lines apart, rows of a grid one.
std::string data_of(const Figure& figure) {
  std::string text;
  for (const auto& panel : figure.panels) {
    for (const auto& layer : panel.layers) {
      text += fmt::format("# {} / {}\n", panel.title, layer.title);
      const size_t rows = layer.columns.empty() ? 0 : layer.columns[0].size();
      for (size_t i = 0; i < rows; ++i) {
        if (layer.row_length > 0 && i > 0 && i % static_cast<size_t>(layer.row_length) == 0) text += "\n";
        for (size_t c = 0; c < layer.columns.size(); ++c)
          text += fmt::format("{}{}", c ? " " : "", number(layer.columns[c][i]));
        text += "\n";
      }
      if (rows == 0) text += "NaN NaN NaN\n";
      text += "\n\n";
    }
  }
  return text;
}

std::string plot_of(const PlotLayer& layer, const std::string& data, int block) {
  const std::string from = fmt::format("{} index {}", quoted(data), block), color = color_of(layer.color);
  const std::string title = layer.title.empty() ? "notitle" : "title " + quoted(layer.title);
  switch (layer.draw) {
    case Draw::kLine:
      return fmt::format("{} using 1:2 with lines lw 2 lc rgb '{}'{} {}", from, color, layer.dashed ? " dt 2" : "",
                         title);
    case Draw::kPoints:
      return fmt::format("{} using 1:2 with points pt 7 ps 0.3 lc rgb '{}' {}", from, color, title);
    case Draw::kBars:
      return fmt::format("{} using 1:2 with boxes fs solid 0.5 noborder lc rgb '{}' {}", from, color, title);
    case Draw::kBand:
      return fmt::format("{} using 1:2:3 with filledcurves fs transparent solid 0.25 lc rgb '{}' {}", from, color,
                         title);
    case Draw::kErrors:
      return fmt::format("{} using 1:2:3 with yerrorlines lw 1.5 pt 7 ps 0.5 lc rgb '{}' {}", from, color, title);
    case Draw::kMarks:
      return fmt::format("{} using {} pt 7 ps 0.9 lc rgb '{}' {}", from,
                         layer.columns.size() > 2 ? "1:2:3 with yerrorbars lw 1.5" : "1:2 with points", color, title);
    case Draw::kHeat:
    case Draw::kLevels:
      return fmt::format("{} using 1:2:3 with image notitle", from);
  }
  return {};
}

std::string body_of(const Figure& figure, const std::string& data) {
  const auto count = static_cast<int>(figure.panels.size());
  const int columns = std::min(figure.columns, std::max(1, count)), rows = (count + columns - 1) / columns;
  std::string text = fmt::format("set multiplot layout {},{}\n", rows, columns);
  int block = 0;
  for (const auto& panel : figure.panels) {
    text += "reset\nset border lc rgb '#444444'\nset grid lc rgb '#dddddd' lw 0.5\nset tics nomirror out\n";
    // Light to dark, monotone in brightness; readable in grey.
    text += "set palette defined (0 '#ffffff', 0.15 '#d4e4f4', 0.4 '#7fb0da', 0.7 '#2a6cb0', 1 '#08204a')\n";
    text += fmt::format("set title {}\nset xlabel {}\nset ylabel {}\nset key {} Left reverse samplen 2\n",
                        quoted(panel.title), quoted(panel.x_label), quoted(panel.y_label), panel.key);
    if (panel.log_x) text += "set logscale x\nset format x '10^{%T}'\n";
    if (panel.log_y) text += "set logscale y\nset format y '10^{%T}'\n";
    if (panel.equal_axes) text += "set size ratio -1\n";
    if (panel.x_range) text += fmt::format("set xrange [{}:{}]\n", (*panel.x_range)[0], (*panel.x_range)[1]);
    if (panel.y_range) text += fmt::format("set yrange [{}:{}]\n", (*panel.y_range)[0], (*panel.y_range)[1]);
    if (!panel.x_names.empty()) {
      std::vector<std::string> tics;
      for (size_t k = 0; k < panel.x_names.size(); ++k)
        tics.push_back(fmt::format("{} {}", quoted(panel.x_names[k]), k));
      text += fmt::format("set xtics rotate by 40 right noenhanced ({})\nset xrange [-0.5:{}]\n", fmt::join(tics, ", "),
                          static_cast<double>(panel.x_names.size()) - 0.5);
    }
    if (panel.layers.empty()) {
      text += "set multiplot next\n";
      continue;
    }
    std::vector<std::string> plots, lines;
    for (const auto& layer : panel.layers) {
      if (layer.draw == Draw::kLevels) {
        text += fmt::format(
            "set contour base\nunset surface\nset cntrparam levels 12\nset table $levels{0}\nsplot {1} index {0} using "
            "1:2:3\nunset table\nunset contour\nset surface\n",
            block, quoted(data));
        lines.push_back(fmt::format("$levels{} using 1:2 with lines lw 0.7 lc rgb '#555555' notitle", block));
      }
      if (layer.draw == Draw::kHeat || layer.draw == Draw::kLevels) text += "unset grid\n";
      plots.push_back(plot_of(layer, data, block++));
      if (layer.draw == Draw::kLevels) plots.push_back(lines.back());
    }
    text += fmt::format("plot {}\n", fmt::join(plots, ", \\\n     "));
  }
  return text + "unset multiplot\n";
}

// gnuplot says nothing of a full disk and leaves a part of the file: only a picture with its end is one.
std::string whole_picture(const std::string& file, const std::string& end) {
  std::string bytes = std::filesystem::exists(file) ? read_file(file) : "";
  if (bytes.substr(bytes.size() - std::min<size_t>(bytes.size(), 16)).find(end) == std::string::npos)
    throw DataError(fmt::format("{}: gnuplot did not write all of it: is the disk full?", file));
  return bytes;
}

}  // namespace

void write_figure(const std::string& stem, const Figure& figure) {
  namespace fs = std::filesystem;
  const fs::path path = fs::absolute(stem);
  const std::string name = path.filename().string(), folder = path.parent_path().string();
  make_directory(folder);
  const auto count = static_cast<int>(figure.panels.size());
  const int columns = std::min(figure.columns, std::max(1, count)), rows = (count + columns - 1) / columns;
  const int width = columns * figure.width, height = rows * figure.height;
  const std::string script = fmt::format(
      "set encoding utf8\nset terminal pngcairo size {0},{1} font 'sans,11' background '#ffffff'\nset output {2}\n{4}"
      "set terminal svg size {0},{1} font 'sans,11' background '#ffffff' standalone\nset output {3}\n{4}unset "
      "output\n",
      width, height, quoted(name + ".png"), quoted(name + ".svg"), body_of(figure, name + ".dat"));
  const std::string data = data_of(figure), log = stem + ".gp.log";
  write_file(stem + ".dat", data);
  write_file(stem + ".gp", script);
  // Drawn elsewhere, by the same script: pictures are whole or not there.
  const TemporaryFolder drawing(folder, ".drawing-");
  const std::string drawn = drawing.path() + "/" + name;
  write_file(drawn + ".dat", data);
  write_file(drawn + ".gp", script);
  const Outcome outcome =
      run_shell(fmt::format("cd {} && gnuplot {}.gp 2> log", quoted_for_shell(drawing.path()), quoted_for_shell(name)));
  if (outcome.code == 127)
    throw ConfigError(fmt::format("{}.png: gnuplot is not installed (Debian: apt-get install gnuplot-nox)", stem));
  if (outcome.code != 0) {
    const std::string said = drawing.path() + "/log";
    if (fs::exists(said)) write_file(log, read_file(said));
    throw DataError(fmt::format("{}.png: gnuplot failed or was killed: see {}", stem, log));
  }
  const std::string png = whole_picture(drawn + ".png", "IEND"), svg = whole_picture(drawn + ".svg", "</svg>");
  write_file(stem + ".png", png);
  write_file(stem + ".svg", svg);
}

std::string write_figure(OutputFolder& folder, const std::string& name, const Figure& figure) {
  for (const char* kind : {".dat", ".gp", ".gp.log", ".png", ".svg"}) folder.file(name + kind);
  const std::string stem = folder.path() + "/" + name;
  write_figure(stem, figure);
  return stem;
}

}  // namespace hastings

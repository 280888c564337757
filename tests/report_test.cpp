#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hastings/core/error.h"
#include "hastings/core/files.h"
#include "hastings/report/figure.h"
#include "support.h"

namespace hastings {
namespace {

namespace fs = std::filesystem;

class FigureTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_ = (fs::temp_directory_path() / ("hastings-figure-" + std::to_string(::getpid()))).string();
};

Figure some_figure() {
  Panel lines{"title with \"quotes\"", "x", "y", {{Draw::kLine, "a", {{1, 2, 3}, {1, 4, 9}}}}};
  Panel heat{"grid", "x", "y", {{Draw::kLevels, "", {{0, 1, 0, 1}, {0, 0, 1, 1}, {1, 2, 3, 4}}, 0, false, 2}}};
  return {{lines, heat}, 2};
}

TEST_F(FigureTest, DataAreKeptBesideThePicture) {
  if (std::system("command -v gnuplot > /dev/null") != 0) GTEST_SKIP() << "no gnuplot";
  write_figure(folder_ + "/f", some_figure());
  EXPECT_EQ(read_file(folder_ + "/f.png").substr(1, 3), "PNG");
  EXPECT_NE(read_file(folder_ + "/f.svg").find("<svg"), std::string::npos);
  const std::string data = read_file(folder_ + "/f.dat");
  EXPECT_NE(data.find("2 4\n3 9\n\n\n"), std::string::npos);
  EXPECT_NE(data.find("1 0 2\n\n0 1 3"), std::string::npos);  // rows of a grid are apart
}

TEST_F(FigureTest, WithoutGnuplotItSaysSoAndKeepsTheData) {
  const std::string path = std::getenv("PATH");
  // A path with a shell but no gnuplot.
  fs::create_directories(folder_ + "/bin");
  ::setenv("PATH", (folder_ + "/bin").c_str(), 1);
  EXPECT_THROW(write_figure(folder_ + "/f", some_figure()), ConfigError);
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(fs::exists(folder_ + "/f.dat"));
}

}  // namespace
}  // namespace hastings

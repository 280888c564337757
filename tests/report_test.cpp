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

// Runs with no gnuplot but this script, which may be empty for none at all.
class FakeGnuplot {
 public:
  FakeGnuplot(const std::string& folder, const std::string& script) {
    fs::create_directories(folder);
    if (!script.empty()) {
      write_file(folder + "/gnuplot", "#!/bin/sh\n" + script + "\n");
      fs::permissions(folder + "/gnuplot", fs::perms::owner_all);
    }
    ::setenv("PATH", folder.c_str(), 1);
  }
  ~FakeGnuplot() { ::setenv("PATH", path_.c_str(), 1); }

 private:
  std::string path_ = std::getenv("PATH");
};

TEST_F(FigureTest, WithoutGnuplotItSaysSoAndKeepsTheData) {
  const FakeGnuplot none(folder_ + "/bin", "");
  EXPECT_THROW(write_figure(folder_ + "/f", some_figure()), ConfigError);
  EXPECT_TRUE(fs::exists(folder_ + "/f.dat"));
  EXPECT_FALSE(fs::exists(folder_ + "/f.gp.log"));
}

// As on a full disk, where gnuplot says nothing, and as when somebody kills it.
TEST_F(FigureTest, HalfAPictureNeverTakesTheNameOfOne) {
  for (const std::string script :
       {"printf half > f.png; printf half > f.svg", "printf IENDxxxx > f.png; printf '<svg>' > f.svg", "kill -9 $$"}) {
    write_file(folder_ + "/f.png", "an older one");
    const FakeGnuplot broken(folder_ + "/bin", script);
    EXPECT_THROW(write_figure(folder_ + "/f", some_figure()), DataError) << script;
    EXPECT_EQ(read_file(folder_ + "/f.png"), "an older one") << script;
    EXPECT_FALSE(fs::exists(folder_ + "/f.svg")) << script;
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".drawing")) << script;
  }
}

}  // namespace
}  // namespace hastings

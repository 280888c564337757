#include "hastings/data/table.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "hastings/core/error.h"
#include "support.h"

namespace hastings {
namespace {

class TableTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  std::string message(const std::string& text) {
    try {
      read_labelled_table(write(text));
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  std::string path_ =
      (std::filesystem::temp_directory_path() / ("hastings-table-" + std::to_string(::getpid()))).string();
};

TEST_F(TableTest, ReadsTheUsualForms) {
  const Tensor expected = test::doubles({1, 2, 3, -4, 5, 6.5}).view({3, 2});
  for (const std::string text :
       {"1,2,0\n3,-4,1\n5,6.5,1\n", "1 2 0\n3 -4 1\n5 6.5 1\n", "  1\t2  0\r\n3 -4 1\r\n\r\n5 6.5 1",
        "a;b;y\n1;2;0\n3;-4;1\n5;6.5;1\n", "\"a\",\"b\",\"y\"\n1,2,-1\n3,-4,+1\n5,6.5,1\n",
        "-1 1:1 2:2\n+1 1:3 2:-4\n+1 2:6.5 1:5\n", "# c\n1,2,1\n3,-4,2\n5,6.5,2\n"}) {
    const LabelledTable table = read_labelled_table(write(text));
    EXPECT_TRUE(at::equal(table.features, expected)) << text;
    EXPECT_TRUE(at::equal(table.labels, test::doubles({0, 1, 1}))) << text;
  }
  EXPECT_EQ(read_labelled_table(write("a,b,y\n1,2,0\n3,-4,1\n")).names, (std::vector<std::string>{"a", "b"}));
  // Missing entries of a sparse row are zero.
  EXPECT_EQ(read_labelled_table(write("0 3:1\n1 1:2\n0 2:5\n")).features[0][0].item<double>(), 0);
}

TEST_F(TableTest, SaysWhatIsWrongAndWhere) {
  EXPECT_NE(message("1,2,0\n3,x,1\n").find("line 2, column 2: 'x' is not a finite number"), std::string::npos);
  EXPECT_NE(message("1,2,0\n3,,1\n").find("line 2, column 2"), std::string::npos);
  EXPECT_NE(message("1,2,0\n3,nan,1\n").find("line 2, column 2"), std::string::npos);
  EXPECT_NE(message("1,2,0\n3,4\n").find("2 fields where 3 were expected"), std::string::npos);
  EXPECT_NE(message("1,2,0\n3,4,1\n5,6,2\n").find("3 distinct values"), std::string::npos);
  EXPECT_NE(message("1,2,0\n3,4,0\n").find("1 distinct value"), std::string::npos);
  EXPECT_NE(message("1,7,0\n3,7,1\n").find("column 2 is constant"), std::string::npos);
  EXPECT_NE(message("a,b,y\n1,7,0\n3,7,1\n").find("column 2 (b) is constant"), std::string::npos);
  EXPECT_NE(message("").find("holds no rows"), std::string::npos);
  EXPECT_NE(message("1\n0\n").find("one column only"), std::string::npos);
  EXPECT_NE(message("1 1:2\n0 nonsense\n").find("line 2, column 2"), std::string::npos);
  EXPECT_NE(message("1 1:2\n0 0:3\n").find("whole number from 1"), std::string::npos);
  EXPECT_THROW(read_labelled_table("/no/such/file"), DataError);
  EXPECT_THROW(read_labelled_table("/"), DataError);
}

TEST_F(TableTest, StandardisesWithThePopulationSd) {
  const Tensor z = standardised(test::doubles({1, 2, 3, 4}).view({4, 1}));
  EXPECT_NEAR(z.mean().item<double>(), 0, 1e-15);
  EXPECT_NEAR(z.square().mean().item<double>(), 1, 1e-15);
}

}  // namespace
}  // namespace hastings

// Images as bytes: single files, and data sets of images of one size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hastings/core/tensor.h"

namespace hastings {

// PNG or JPEG, whichever the content is: uint8 [3, height, width].
Tensor read_image(const std::string& path);
// uint8 [1 or 3, height, width]; whole or not there.
void write_png(const std::string& path, const Tensor& image);
// uint8 [n, c, h, w] to one image of `columns` pictures a row, with a thin border.
Tensor image_grid(const Tensor& images, int64_t columns);

// What is done to every image as it is read.
struct ImageOptions {
  std::string crop;  // "WIDTHxHEIGHT+X+Y", or "WIDTHxHEIGHT" for the centre; empty: none
  int64_t size = 0;  // then resized to size x size (bilinear, antialiased); 0: as it is
  int channels = 0;  // 1 or 3; 0: as the data have them
  void validate() const;
};

struct ImageSet {
  std::string name;        // the spec it came from
  Tensor pixels;           // uint8 [n, channels, height, width]
  Tensor labels;           // int64 [n], or undefined
  int64_t train_size = 0;  // the first so many are the official training set; 0: there is no such thing
};

// mnist:FOLDER      the four idx files, plain
// cifar10:FOLDER    data_batch_1.bin .. test_batch.bin (the binary version)
// folder:FOLDER     all PNG and JPEG files below it, in the order of their names
// FILE.npy, FILE.npz[:NAME]   uint8, NHWC or NCHW
// Training images come first, then test images. DataError says what is wrong with the file.
ImageSet read_images(const std::string& spec, const ImageOptions& options = {});

// A number that changes with any pixel, and with the order of the images.
uint64_t fingerprint(const ImageSet& images);

// Three disjoint parts of a data set, as indices.
struct Splits {
  std::vector<int64_t> train, calibrate, reference;
};

struct SplitOptions {
  int64_t calibrate = 10000;  // images the networks never see, to calibrate with
  int64_t reference = 10000;  // images only scores are computed against
  bool train = true;          // some are trained on; without, all that are left serve as reference
};

// Deterministic in the seed. Calibration images come from the official test set where there is one, as far as they
// reach, reference images from what is left; with few images the parts shrink, and fewer than 100 in one is a
// DataError.
Splits make_splits(const ImageSet& images, const SplitOptions& options, uint64_t seed);

// Throws DataError if an index is in two parts or out of range; returns how many images of the calibration and
// reference parts have an exact copy (same pixels) in another part.
int64_t check_splits(const ImageSet& images, const Splits& splits);

}  // namespace hastings

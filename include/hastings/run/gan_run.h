// A GAN's run on disk: pair.json with the networks and their weights, config.json, splits.json, history.csv, samples/,
// state.safetensors (to go on training), classifiers.json, calibration.json with witness.json.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hastings/core/output_folder.h"
#include "hastings/data/images.h"
#include "hastings/gan/network/features.h"
#include "hastings/gan/train/train.h"

namespace hastings {

// What data a run uses, and how.
struct GanData {
  std::string spec;
  ImageOptions images;
  SplitOptions splits;
  uint64_t seed = 1;  // of the splits

  template <class Archive>
  void fields(Archive& a) {
    a("spec", spec);
    a("crop", images.crop);
    a("size", images.size);
    a("channels", images.channels);
    a("calibrate", splits.calibrate);
    a("reference", splits.reference);
    a("seed", seed);
    a.later("trained", splits.train);
  }
};

// The data of a run with its splits; they are checked as they are loaded.
struct SplitImages {
  GanData data;
  ImageSet images;
  Splits splits;
  int64_t copies = 0;  // images of held-out parts that have an exact copy in another part
  uint64_t fingerprint = 0;

  Tensor part(const std::vector<int64_t>& indices) const;  // uint8 [n, c, h, w]
};

SplitImages load_split_images(const GanData& data);
void save_splits(OutputFolder& folder, const SplitImages& images);
// The splits of a run; `spec` names the data where they have moved (empty: as stored). DataError if the images are not
// those that were split.
SplitImages load_splits(const std::string& folder, const std::string& spec = "");

struct GanTrainRequest {
  GanTrainOptions train;
  std::string networks = "dcgan";  // a preset, or a JSON file
  int64_t width = 32, latent = 100;
  double checkpoint_seconds = 60;
  int64_t grid_every = 0;  // iterations between sample grids; 0: twenty of them
  int threads = 0;

  template <class Archive>
  void fields(Archive& a) {
    a("loss", train.loss);
    a("batch", train.batch);
    a("iterations", train.iterations);
    a("epochs", train.epochs);
    a("learning_rate", train.learning_rate);
    a("critic_steps", train.critic_steps);
    a("gradient_penalty", train.gradient_penalty);
    a("seed", train.seed);
    a("networks", networks);
    a("width", width);
    a("latent", latent);
    a("grid_every", grid_every);
    a("threads", threads);
  }
};

struct GanTrained {
  int64_t iterations = 0;
  double seconds = 0, acceptance = 0, discriminator_loss = 0, generator_loss = 0;
  bool interrupted = false;
};

// Trains into `folder`; a calibration of earlier networks is dropped. With `resume` it goes on from the stored state,
// with the stored request but for a later end.
GanTrained train_gan(OutputFolder& folder, const SplitImages& images, const GanTrainRequest& request, bool resume,
                     Observer& observer);
// The request of a run that was begun.
GanTrainRequest stored_gan_request(const std::string& folder);

// Classifiers of the labels of the training images, learned once and kept in the run; null where nothing was trained
// on here, or there are no labels of use (the observer is warned of those).
std::shared_ptr<const FeatureNetwork> run_classifiers(OutputFolder& folder, const SplitImages& images, int threads,
                                                      Observer& observer);

bool is_gan_run(const std::string& folder);
// The networks of a run; ConfigError if there are none.
Pair pair_of_run(const std::string& folder);
// How many images are for what, and held-out images that are elsewhere too, in words.
void tell_splits(const SplitImages& images, const std::function<void(const std::string&)>& tell);

// Puts a pair that was trained elsewhere into a run folder, with its weights; TorchScript modules stay where they are.
// A calibration that lies there is dropped.
void import_pair(OutputFolder& folder, const Pair& pair, const std::string& from_folder);

}  // namespace hastings

#!/usr/bin/env bash
# The GAN commands as their users call them, on a small data set made here: train, kill and resume, calibrate, sample,
# compare, bad input, a full disk.
hastings=$1
. "$(dirname "$(readlink -f "$0")")/cli_support.sh"

# images.npy: 1,200 grey images of 8x8, stripes of a random phase: bytes from awk through printf.
awk 'BEGIN { srand(7); h = "{\x27descr\x27: \x27|u1\x27, \x27fortran_order\x27: False, \x27shape\x27: (1200, 1, 8, 8), }";
  printf "\\x93NUMPY\\x01\\x00\\x76\\x00%s", h; for (i = length(h); i < 117; ++i) printf " "; printf "\\x0a\n";
  for (i = 0; i < 1200; ++i) { p = rand() * 6.28; s = "";
    for (y = 0; y < 8; ++y) for (x = 0; x < 8; ++x) s = s sprintf("\\x%02x", int(128 + 100 * sin(p + 0.8 * x) + 20 * rand())); print s } }' |
  while IFS= read -r line; do printf '%b' "$line"; done >images.npy
check "the images are there" [ "$(stat -c %s images.npy)" -eq $((128 + 1200 * 64)) ]
small=(--width 4 --latent 5 --batch 16 --threads 1 -q)

"$hastings" gan train images.npy -o a "${small[@]}" --iterations 40 >out 2>err; check "train" [ $? -eq 0 ]
for file in pair.json generator.safetensors discriminator.safetensors splits.json history.csv config.json samples/0000040.png; do
  check "train writes $file" [ -s "a/$file" ]
done
# Stopped and taken up: the same weights, bit for bit.
"$hastings" gan train images.npy -o b "${small[@]}" --iterations 25 >out 2>err
"$hastings" gan train b --resume --iterations 40 -q >out 2>err; check "resume" [ $? -eq 0 ]
check "resumed training is the same" cmp -s a/generator.safetensors b/generator.safetensors
check "its discriminator too" cmp -s a/discriminator.safetensors b/discriminator.safetensors
# Killed at once after a checkpoint, and taken up.
"$hastings" gan train images.npy -o c "${small[@]}" --iterations 4000 --checkpoint-seconds 0 >out 2>err &
pid=$!
for _ in $(seq 100); do [ -s c/state.safetensors ] && break; sleep 0.1; done
sleep 0.3
kill -9 $pid
wait $pid 2>/dev/null
"$hastings" gan train c --resume --iterations 2500 -q >out 2>err; check "resume after a kill" [ $? -eq 0 ]
"$hastings" gan train images.npy -o d "${small[@]}" --iterations 2500 >out 2>err
check "a kill changes nothing" cmp -s c/generator.safetensors d/generator.safetensors
# Ctrl-C stores what is there.
"$hastings" gan train images.npy -o e "${small[@]}" --iterations 100000 >out 2>err &
pid=$!
sleep 3
kill -INT $pid
wait $pid
check "Ctrl-C ends with 130" [ $? -eq 130 ]
check "and says how to go on" grep -q -- "--resume" out
check "and leaves a pair" [ -s e/pair.json ]

"$hastings" gan calibrate d -q >out 2>err; check "calibrate" [ $? -eq 0 ]
check "calibrate says what it chose" grep -Eq "held-out distance|No filter" out
check "reliability figure" [ -s d/reliability.png ]
"$hastings" gan sample d -n 200 --images -q --threads 1 >out 2>err; check "sample" [ $? -eq 0 ]
check "grid" [ -s d/outputs-1/grid.png ]
check "npz" [ -s d/outputs-1/samples.npz ]
check "as many pictures as asked for" [ "$(find d/outputs-1/images -name '*.png' | wc -l)" -eq 200 ]
"$hastings" gan sample d -n 200 -q --threads 2 -o two >out 2>err
check "any number of threads gives the same" cmp -s two/samples.npz d/outputs-1/samples.npz
for protocol in chain restarts generated rejection top plain; do
  "$hastings" gan sample d -n 60 --protocol $protocol --per-output 5 -q -o "p-$protocol" --json >out 2>err
  check "sample by $protocol" [ $? -eq 0 ]
  check "facts of $protocol" grep -q '"outputs": 60' out
done
"$hastings" gan calibrate d --method none --protocol chain -q >out 2>err; check "calibrate by hand" [ $? -eq 0 ]
check "it is what was asked for" grep -q '"method": "none"' d/calibration.json

cat >features.json <<'JSON'
{"name": "means", "input": [1, 8, 8], "weights": "w.safetensors", "layers": [{"type": "avg_pool", "kernel": 2}, {"type": "linear", "out": 4, "name": "f"}]}
JSON
# {"f.bias": 4 floats, "f.weight": 4x16}: numbers of a sort
header='{"f.bias":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"f.weight":{"dtype":"F32","shape":[4,16],"data_offsets":[16,272]}}'
{ printf '%b' "$(printf '\\x%02x\\x00\\x00\\x00\\x00\\x00\\x00\\x00' ${#header})"; printf '%s' "$header"
  for i in $(seq 68); do printf '%b' "\\x00\\x00$(printf '\\x%02x' $((i * 37 % 128)))\\x3e"; done; } >w.safetensors
"$hastings" gan calibrate d --witness features.json -q >out 2>err; check "calibrate with a witness" [ $? -eq 0 ]
check "and says which" grep -q "in means" out
fails 3 "none.json" gan calibrate d --witness none.json -q
# Images with labels (idx files): stripes that run across or down. A classifier of the labels gives its opinion.
mkdir labelled
idx() { # images labels number seed
  awk -v n="$3" -v seed="$4" 'BEGIN { srand(seed); for (i = 0; i < n; ++i) { p = rand() * 6.28; c = rand() < 0.5; s = "";
    for (y = 0; y < 8; ++y) for (x = 0; x < 8; ++x) s = s sprintf("\\x%02x", int(128 + 100 * sin(p + 0.8 * (c ? x : y)) + 20 * rand()));
    print c, s } }' >rows
  { printf '%b' "\\x00\\x00\\x08\\x03\\x00\\x00$(printf '\\x%02x\\x%02x' $(($3 / 256)) $(($3 % 256)))\\x00\\x00\\x00\\x08\\x00\\x00\\x00\\x08"
    while read -r _ line; do printf '%b' "$line"; done <rows; } >"labelled/$1"
  { printf '%b' "\\x00\\x00\\x08\\x01\\x00\\x00$(printf '\\x%02x\\x%02x' $(($3 / 256)) $(($3 % 256)))"
    while read -r label _; do printf '%b' "\\x0$label"; done <rows; } >"labelled/$2"
}
idx train-images-idx3-ubyte train-labels-idx1-ubyte 900 1
idx t10k-images-idx3-ubyte t10k-labels-idx1-ubyte 400 2
"$hastings" gan train mnist:labelled -o l "${small[@]}" --iterations 300 --calibrate-images 400 --reference-images 300 >out 2>err
check "train on labelled images" [ $? -eq 0 ]
"$hastings" gan calibrate l -q >out 2>err; check "calibrate with labels" [ $? -eq 0 ]
check "distances are taken in what classifiers see" grep -q '"space": "3 classifiers of its 2 labels"' l/calibration.json
check "and is kept" [ -s l/classifiers.safetensors ]
cp l/calibration.json first.json
cp l/classifiers.safetensors first.safetensors
OMP_NUM_THREADS=1 "$hastings" gan calibrate l -q --threads 1 >out 2>err
check "it is learned once" cmp -s l/classifiers.safetensors first.safetensors
check "and the choice repeats, on one thread too" cmp -s l/calibration.json first.json
"$hastings" gan calibrate l --method logit+witness --protocol chain -q >out 2>err; check "ratios on its features" [ $? -eq 0 ]
"$hastings" gan sample l -n 100 -q -o l1 --threads 1 >out 2>err; check "sample by them" [ $? -eq 0 ]
"$hastings" gan sample l -n 100 -q -o l2 --threads 2 >out 2>err
check "the same on two threads" cmp -s l1/samples.npz l2/samples.npz
rm l/witness.safetensors
fails 3 "witness.safetensors" gan sample l -n 100 -q
sed 's/\[1, 8, 8\]/[1, 16, 16]/; s/"kernel": 2/"kernel": 4/' features.json >other.json
fails 2 "wants images of 1x16x16" gan calibrate l --witness other.json --witness-weights w.safetensors -q
"$hastings" gan calibrate l --witness none -q >out 2>err
check "the discriminator alone" grep -q "\"space\": \"the discriminator's features\"" l/calibration.json
# Other images, or in another order, are not the ones that were split; more training drops a calibration.
cp -r labelled moved
"$hastings" gan calibrate l --data mnist:moved --witness none -q >out 2>err; check "data that have moved" [ $? -eq 0 ]
{ head -c 16 labelled/t10k-images-idx3-ubyte; tail -c 64 labelled/t10k-images-idx3-ubyte; tail -c +17 labelled/t10k-images-idx3-ubyte | head -c -64; } >moved/t10k-images-idx3-ubyte
fails 3 "not the images" gan calibrate l --data mnist:moved -q
fails 2 "split already" gan calibrate l --calibrate-images 200 -q
fails 2 "the run's own is used" gan train l --resume --loss dcgan -q
"$hastings" gan train l --resume --iterations 310 -q >out 2>err; check "train on" [ $? -eq 0 ]
fails 2 "is not calibrated" gan sample l -n 100 -q
fails 2 "needs a witness" gan calibrate l --witness none --method witness -q

"$hastings" gan compare d --features features.json -n 200 --seeds 2 --rivals top -q >out 2>err; check "compare" [ $? -eq 0 ]
check "compare's table" grep -q "| top |" out
"$hastings" gan compare d --features features.json -n 200 --seeds 2 --rivals top -q >again 2>err
check "finished cells are not computed again" cmp -s out again

fails 2 "must be mnist:FOLDER" gan train nothing -q
fails 3 "is not there" gan train mnist:nowhere -q
fails 2 "loss 'magic'" gan train images.npy -o x --loss magic -q
fails 2 "must be dcgan, wgan-gp, mlp or a JSON file" gan train images.npy -o x --networks resnet -q
fails 2 "is there already" gan train images.npy -o a -q
fails 2 "holds no training to resume" gan train nowhere --resume -q
fails 2 "crop 'x'" gan train images.npy -o x --crop x -q
fails 2 "is neither a run" gan calibrate nowhere
fails 2 "method 'guess'" gan calibrate d --method guess
fails 2 "is not calibrated" gan sample a
fails 2 "protocol 'walk'" gan sample d --protocol walk
fails 2 "must be positive" gan sample d --per-output 0
fails 3 "nofeatures.json" gan compare d --features nofeatures.json
fails 2 "must be mnist, cifar10 or celeba" data fetch imagenet
fails 3 "may be used for research" data fetch celeba --to faces
cp -r a broken
head -c 1000 a/generator.safetensors >broken/generator.safetensors
fails 3 "broken/generator.safetensors" gan calibrate broken -q
cp -r a other
sed -i 's/"out": 1,/"out": 2,/' other/pair.json
fails 2 "last layer gives" gan calibrate other -q

mkdir full
if mount -t tmpfs -o size=1m tmpfs full 2>/dev/null; then
  cp d/*.json d/*.safetensors full/ 2>/dev/null
  rm -f full/state.safetensors
  cd full || exit 1
  "$hastings" gan sample . -n 20000 -q -o out-1 >../out 2>../err
  check "a full disk is told" [ $? -eq 3 ]
  check "as such" grep -q "cannot be written" ../err
  cd ..
  check "and no half output is left under the name" [ ! -e full/out-1 ]
  umount full
else
  echo "skipped: no permission to mount a small file system"
fi

finish

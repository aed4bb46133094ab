// Runs a built model without Python:
//
//   run_artifact net.hetero                             seeded random inputs
//   run_artifact net.hetero --input data_0=x.npy        an input from a file
//   run_artifact net.hetero --output out                writes out/0.npy, out/1.npy, ...
//   run_artifact net.hetero --variant single --repeat 50 --seed 1
//
// What it needs besides this file stands in CMakeLists.txt.
#include <sys/stat.h>
#include <tvm_hetero/model.h>
#include <tvm_hetero/npy.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <string>

namespace ffi = tvm::ffi;
using tvm_hetero::Model;

namespace {

struct Options {
  std::string artifact, variant, output;
  std::map<std::string, std::string> inputs;  // file by name
  int repeat = 1;
  unsigned seed = 0;
};

Options ParseOptions(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    if (word.rfind("--", 0) != 0) {
      options.artifact = word;
      continue;
    }
    if (++i == count) throw std::invalid_argument(word + " wants a value");
    std::string value = words[i];
    if (word == "--variant") options.variant = value;
    else if (word == "--output") options.output = value;
    else if (word == "--repeat") options.repeat = std::max(1, std::atoi(value.c_str()));
    else if (word == "--seed") options.seed = static_cast<unsigned>(std::atoi(value.c_str()));
    else if (word == "--input" && value.find('=') != std::string::npos)
      options.inputs[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    else throw std::invalid_argument("there is no option " + word + " " + value);
  }
  if (options.artifact.empty()) throw std::invalid_argument("name an artifact: a folder");
  return options;
}

std::string Shown(const ffi::Tensor& tensor) {
  std::string text(ffi::DLDataTypeToString(tensor.dtype()));
  for (int64_t size : tensor.shape()) text += " " + std::to_string(size);
  return text;
}

// Normally distributed floats; zeros for all other types.
ffi::Tensor RandomTensor(const tvm_hetero::TensorPlan& type, std::mt19937* random) {
  ffi::Tensor tensor = tvm_hetero::EmptyTensor(type);
  std::fill_n(static_cast<char*>(tensor.data_ptr()), type.Bytes(), 0);
  if (type.dtype.code != kDLFloat || type.dtype.bits != 32) return tensor;
  std::normal_distribution<float> normal;
  float* values = static_cast<float*>(tensor.data_ptr());
  std::generate_n(values, tensor.numel(), [&] { return normal(*random); });
  return tensor;
}

ffi::Array<ffi::Tensor> MakeInputs(const Model& model, Options options) {
  std::mt19937 random(options.seed);
  ffi::Array<ffi::Tensor> inputs;
  for (const tvm_hetero::InputInfo& input : model.inputs()) {
    auto file = options.inputs.find(input.name);
    inputs.push_back(file == options.inputs.end() ? RandomTensor(input.type, &random)
                                                  : tvm_hetero::ReadNpy(file->second));
    if (file != options.inputs.end()) options.inputs.erase(file);
    std::printf("input  %-24s %s\n", input.name.c_str(), Shown(inputs.back()).c_str());
  }
  if (options.inputs.empty()) return inputs;
  throw std::invalid_argument("there is no input " + options.inputs.begin()->first);
}

void Run(const Options& options) {
  Model model(options.artifact, options.variant);
  std::printf("%s: variant %s, batch of %ld\n", options.artifact.c_str(), model.variant().c_str(),
              static_cast<long>(model.batch()));
  ffi::Array<ffi::Tensor> inputs = MakeInputs(model, options), outputs;
  double best = 1e30;
  for (int i = 0; i < options.repeat; ++i) {
    auto start = std::chrono::steady_clock::now();
    outputs = model.Run(inputs);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  if (!options.output.empty()) mkdir(options.output.c_str(), 0777);  // may be there already
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::printf("output %-24s %s\n", model.outputs()[i].c_str(), Shown(outputs[i]).c_str());
    if (options.output.empty()) continue;
    tvm_hetero::WriteNpy(options.output + "/" + std::to_string(i) + ".npy", outputs[i]);
  }
  std::printf("best of %d runs: %.3f ms\n", options.repeat, best);
}

}  // namespace

int main(int count, char** words) {
  try {
    Run(ParseOptions(count, words));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

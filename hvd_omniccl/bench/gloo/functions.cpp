// Gloo's allreduce as Horovod calls it, as functions for ctypes. Those that fail return nothing
// (null, or not 0) and leave the reason for gloo_error().
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

thread_local std::string last_error;

template <typename T>
void allreduce(const std::shared_ptr<gloo::Context>& context, void* input, void* output,
               std::size_t elements) {
  gloo::AllreduceOptions options(context);
  options.setInput(static_cast<T*>(input), elements);
  options.setOutput(static_cast<T*>(output), elements);
  void (*const sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<T>;
  options.setReduceFunction(sum);
  gloo::allreduce(options);
}

void dispatch(const std::string& dtype, const std::shared_ptr<gloo::Context>& context, void* input,
              void* output, std::size_t elements) {
  if (dtype == "float32") return allreduce<float>(context, input, output, elements);
  if (dtype == "float64") return allreduce<double>(context, input, output, elements);
  if (dtype == "float16") return allreduce<gloo::float16>(context, input, output, elements);
  if (dtype == "int8") return allreduce<std::int8_t>(context, input, output, elements);
  if (dtype == "uint8") return allreduce<std::uint8_t>(context, input, output, elements);
  if (dtype == "int32") return allreduce<std::int32_t>(context, input, output, elements);
  if (dtype == "int64") return allreduce<std::int64_t>(context, input, output, elements);
  throw std::invalid_argument("Gloo has no " + dtype);
}

using Context = std::shared_ptr<gloo::Context>;

}  // namespace

extern "C" {

const char* gloo_error() { return last_error.c_str(); }

// The ranks meet in `folder`; `interface` is null for loopback.
void* gloo_open(int rank, int size, const char* folder, const char* interface) {
  try {
    gloo::transport::tcp::attr place;
    if (interface != nullptr) {
      place.iface = interface;
    } else {
      place.hostname = "127.0.0.1";
    }
    auto device = gloo::transport::tcp::CreateDevice(place);
    gloo::rendezvous::FileStore store(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    return new Context(std::move(context));
  } catch (const std::exception& error) {
    last_error = error.what();
    return nullptr;
  }
}

int gloo_allreduce(void* context, const char* dtype, void* input, void* output,
                   std::size_t elements) {
  try {
    dispatch(dtype, *static_cast<Context*>(context), input, output, elements);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

void gloo_close(void* context) { delete static_cast<Context*>(context); }

}  // extern "C"

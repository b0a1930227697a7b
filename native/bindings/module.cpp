// The Python module _native: the engine for NumPy, translation and nothing more. The Python side
// (hvd_omniccl/communicator.py) checks arrays and hands out addresses of memory that it keeps
// alive.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bindings/interruptible.h"
#include "bindings/kernel_functions.h"
#include "engine/communicator.h"
#include "engine/probe.h"
#include "protocol/secret_file.h"

namespace py = pybind11;

namespace omniccl::bindings {
namespace {

// The tensors of one reduction: (address of the input, of the output, elements, block size).
using TensorTuple = std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t, std::uint32_t>;

static_assert(std::is_trivially_copyable_v<Endpoint>);

Endpoint endpoint_from(const std::string& bytes) {
  if (bytes.size() != sizeof(Endpoint)) {
    throw Error(ErrorKind::kInvalidArgument, "not an endpoint of this version");
  }
  Endpoint endpoint;
  std::memcpy(&endpoint, bytes.data(), sizeof endpoint);
  return endpoint;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const DataType dtype : kDataTypes) names.emplace_back(name_of(dtype));
  return names;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const KernelTable* table : available_kernels()) names.emplace_back(table->name);
  return names;
}

Milliseconds milliseconds(double seconds) {
  return Milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

// Gets a level of Python's logging and a text.
using PythonLog = std::function<void(int, const std::string&)>;

int python_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 10;
    case LogLevel::kInfo:
      return 20;
    case LogLevel::kWarning:
      break;
  }
  return 30;
}

class NumpyCommunicator {
 public:
  NumpyCommunicator(std::uint32_t rank, std::uint32_t size, const py::bytes& session_id,
                    const py::bytes& key, std::uint64_t generation,
                    const std::vector<std::string>& aggregators, const std::string& secret_file,
                    std::uint64_t slot_memory, double timeout, double connect_timeout,
                    bool checksum, bool huge_pages, const std::string& kernels, bool loopback_only,
                    const std::string& transport, const std::string& congestion_control,
                    const std::string& interface, std::uint16_t first_port, std::uint16_t last_port,
                    PythonLog log) {
    CommunicatorConfig config;
    config.rank = rank;
    config.size = size;
    copy(session_id, config.credentials.session_id);
    copy(key, config.credentials.key);
    config.credentials.generation = generation;
    for (const std::string& place : aggregators) {
      config.aggregators.push_back(parse_host_port(place));
    }
    if (!aggregators.empty()) config.credentials.key = read_secret_file(secret_file);
    config.slot_memory_bytes = slot_memory;
    config.timeout = milliseconds(timeout);
    config.connect_timeout = milliseconds(connect_timeout);
    config.payload_checksum = checksum;
    config.huge_pages = huge_pages;
    config.kernels = &find_kernels(kernels);
    config.loopback_only = loopback_only;
    config.transport = transport_named(transport);
    config.congestion_control = congestion_control;
    config.interface = interface;
    config.first_port = first_port;
    config.last_port = last_port;
    config.log = [log = std::move(log)](LogLevel level, const std::string& text) {
      log(python_level(level), text);
    };
    config.interrupted = [this] { interruptible_.check(); };
    communicator_ = std::make_unique<Communicator>(std::move(config));
  }

  // A forked child shares descriptors, and epoll sets with what is registered in them, with its
  // parent: there nothing may be closed in order.
  ~NumpyCommunicator() {
    if (::getpid() != process_) static_cast<void>(communicator_.release());
  }
  NumpyCommunicator(const NumpyCommunicator&) = delete;
  NumpyCommunicator& operator=(const NumpyCommunicator&) = delete;

  py::bytes endpoint() const {
    const Endpoint& endpoint = communicator_->endpoint();
    return {reinterpret_cast<const char*>(&endpoint), sizeof endpoint};
  }

  void connect(const std::vector<std::string>& endpoints) {
    std::vector<Endpoint> places;
    places.reserve(endpoints.size());
    for (const std::string& bytes : endpoints) places.push_back(endpoint_from(bytes));
    interruptible_.run([&] { communicator_->connect(places); });
  }

  void allreduce(const std::string& dtype, const std::vector<TensorTuple>& tensors, double prescale,
                 double postscale, const std::string& name) {
    std::vector<TensorView> views;
    views.reserve(tensors.size());
    for (const auto& [input, output, elements, block] : tensors) {
      // Python has addresses as numbers. NOLINTBEGIN(performance-no-int-to-ptr)
      views.push_back({reinterpret_cast<const std::byte*>(input),
                       reinterpret_cast<std::byte*>(output), elements, block});
      // NOLINTEND(performance-no-int-to-ptr)
    }
    Reduction reduction;
    reduction.dtype = dtype_named(dtype);
    reduction.prescale = prescale;
    reduction.postscale = postscale;
    reduction.tensors = views;
    reduction.name = name;
    interruptible_.run([&] { communicator_->allreduce(reduction); });
  }

  Stats stats() const { return communicator_->stats(); }

 private:
  template <std::size_t Size>
  static void copy(const py::bytes& from, std::array<std::uint8_t, Size>& to) {
    const std::string_view bytes(from);
    if (bytes.size() != Size) {
      throw Error(ErrorKind::kInvalidArgument, "not a session of this version");
    }
    std::memcpy(to.data(), bytes.data(), Size);
  }

  const pid_t process_ = ::getpid();
  Interruptible interruptible_;
  std::unique_ptr<Communicator> communicator_;
};

std::uint64_t for_python(std::uint64_t count) { return count; }
double for_python(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

py::dict stats_dict(const Stats& stats) {
  py::dict result;
  Stats::for_each_counter(
      [&](const char* name, auto counter) { result[name] = for_python(stats.*counter); });
  return result;
}

py::tuple random_session() {
  const SessionCredentials credentials = SessionCredentials::random();
  const auto bytes = [](const auto& array) {
    return py::bytes(reinterpret_cast<const char*>(array.data()), array.size());
  };
  return py::make_tuple(bytes(credentials.session_id), bytes(credentials.key));
}

// Errors arrive in Python as EngineError(kind, text); communicator.py gives them their class.
void translate(const std::exception_ptr& pointer, const py::handle& engine_error) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const char* kind = "system";
    switch (error.kind()) {
      case ErrorKind::kPeerFailure:
        kind = "peer";
        break;
      case ErrorKind::kPrecondition:
        kind = "precondition";
        break;
      case ErrorKind::kInvalidArgument:
        kind = "argument";
        break;
      case ErrorKind::kSystem:
        break;
    }
    ::PyErr_SetObject(engine_error.ptr(), py::make_tuple(kind, error.what()).ptr());
  }
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.doc() = "The engine of hvd_omniccl for NumPy arrays.";
  static py::handle engine_error =
      py::exception<Error>(module, "EngineError", PyExc_RuntimeError).release();
  py::register_local_exception_translator(
      // NOLINTNEXTLINE(performance-unnecessary-value-param): pybind11's signature
      [](std::exception_ptr pointer) { translate(pointer, engine_error); });

  module.attr("PROTOCOL_VERSION") = kProtocolVersion;
  module.def("available_kernels", &kernel_names);
  module.def("dtypes", &dtype_names);
  module.def("random_session", &random_session);
  module.def(
      "probe_aggregator",
      [](const std::string& place, const std::string& secret_file, double timeout) {
        const HostPort host_port = parse_host_port(place);
        const SecretKey key = read_secret_file(secret_file);
        Interruptible interruptible;
        return interruptible.run([&] {
          return probe_aggregator(host_port, key, milliseconds(timeout),
                                  [&] { interruptible.check(); });
        });
      },
      py::arg("place"), py::arg("secret_file"), py::arg("timeout"));
  define_kernel_functions(module.def_submodule("kernels", "The inner loops, for the benchmark."));
  py::class_<NumpyCommunicator>(module, "Communicator")
      .def(py::init<std::uint32_t, std::uint32_t, const py::bytes&, const py::bytes&, std::uint64_t,
                    const std::vector<std::string>&, const std::string&, std::uint64_t, double,
                    double, bool, bool, const std::string&, bool, const std::string&,
                    const std::string&, const std::string&, std::uint16_t, std::uint16_t,
                    PythonLog>(),
           py::kw_only(), py::arg("rank"), py::arg("size"), py::arg("session_id"), py::arg("key"),
           py::arg("generation"), py::arg("aggregators"), py::arg("secret_file"),
           py::arg("slot_memory"), py::arg("timeout"), py::arg("connect_timeout"),
           py::arg("checksum"), py::arg("huge_pages"), py::arg("kernels"), py::arg("loopback_only"),
           py::arg("transport"), py::arg("congestion_control"), py::arg("interface"),
           py::arg("first_port"), py::arg("last_port"), py::arg("log"))
      .def("endpoint", &NumpyCommunicator::endpoint)
      .def("connect", &NumpyCommunicator::connect, py::arg("endpoints"))
      .def("allreduce", &NumpyCommunicator::allreduce, py::arg("dtype"), py::arg("tensors"),
           py::arg("prescale"), py::arg("postscale"), py::arg("name"))
      .def("stats", [](const NumpyCommunicator& one) { return stats_dict(one.stats()); });
}

}  // namespace omniccl::bindings

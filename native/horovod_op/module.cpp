// The Python module _horovod_adapter: translation and nothing more.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "attach.h"
#include "base/error.h"
#include "hook.h"
#include "tensor_tag.h"

namespace py = pybind11;

namespace omniccl::horovod_op {
namespace {

std::uint64_t for_python(std::uint64_t count) { return count; }
double for_python(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

Intercept intercept_from(const std::string& name) {
  if (name == "off") return Intercept::kOff;
  if (name == "tagged") return Intercept::kTagged;
  if (name == "all") return Intercept::kAll;
  throw Error(ErrorKind::kInvalidArgument, "unknown interception mode '" + name + "'");
}

py::list attach_from_python(const std::string& library_path, const std::string& intercept,
                            std::uint32_t block_elements, std::uint64_t slot_memory_bytes,
                            const std::vector<std::string>& aggregators,
                            const std::string& secret_file, const std::string& transport,
                            const std::string& congestion_control, const std::string& interface,
                            std::uint16_t first_port, std::uint16_t last_port,
                            bool payload_checksum, bool huge_pages, double timeout_seconds,
                            double connect_timeout_seconds, const std::string& kernels,
                            const std::string& package_version) {
  Settings settings;
  settings.intercept = intercept_from(intercept);
  settings.block_elements = block_elements;
  settings.slot_memory_bytes = slot_memory_bytes;
  for (const std::string& place : aggregators) {
    settings.aggregators.push_back(parse_host_port(place));
  }
  settings.secret_file = secret_file;
  settings.transport = transport_named(transport);
  settings.congestion_control = congestion_control;
  settings.interface = interface;
  settings.first_port = first_port;
  settings.last_port = last_port;
  settings.payload_checksum = payload_checksum;
  settings.huge_pages = huge_pages;
  settings.timeout = Milliseconds(static_cast<std::int64_t>(timeout_seconds * 1000.0));
  settings.connect_timeout =
      Milliseconds(static_cast<std::int64_t>(connect_timeout_seconds * 1000.0));
  settings.kernels = kernels;
  settings.package_version = package_version;

  // The background thread reads the settings without a lock from the first hooked call on.
  static std::once_flag configured;
  std::call_once(configured, [&] { Hook::instance().configure(settings); });

  py::list report;
  for (const AttachResult& result : attach(library_path)) {
    py::dict entry;
    entry["class_name"] = result.class_name;
    entry["attached"] = result.attached;
    entry["reason"] = result.reason;
    report.append(entry);
  }
  return report;
}

py::dict stats_for_python() {
  const TotalsSnapshot totals = Hook::instance().totals().snapshot();
  const Stats& stats = totals.stats;
  py::dict result;
  Stats::for_each_counter(
      [&](const char* name, auto counter) { result[name] = for_python(stats.*counter); });
  result["passed_on"] = totals.passed_on;
  return result;
}

// What the headers were compiled with, for the second guard.
py::dict build_info() {
  std::map<std::string, bool> features;
#ifdef HAVE_MPI
  features["mpi"] = true;
#else
  features["mpi"] = false;
#endif
#ifdef HAVE_GLOO
  features["gloo"] = true;
#else
  features["gloo"] = false;
#endif
#ifdef HAVE_CCL
  features["ccl"] = true;
#else
  features["ccl"] = false;
#endif
  py::dict info;
  info["horovod_version"] = OMNICCL_HOROVOD_VERSION;
  info["features"] = features;
  return info;
}

// The kind of a name's tag and its block size.
std::pair<const char*, std::uint32_t> tag_of(const std::string& tensor_name) {
  const TensorTag tag = read_tag(tensor_name);
  switch (tag.kind) {
    case TensorTag::Kind::kNone:
      return {"none", 0};
    case TensorTag::Kind::kMalformed:
      return {"malformed", 0};
    case TensorTag::Kind::kMarked:
      return {"marked", tag.block_elements};
    case TensorTag::Kind::kUnmarked:
      break;
  }
  return {"unmarked", tag.block_elements};
}

}  // namespace

PYBIND11_MODULE(_horovod_adapter, module) {
  module.doc() = "The hook of hvd_omniccl in Horovod's CPU allreduce.";
  module.def("attach", &attach_from_python, py::arg("library_path"), py::kw_only(),
             py::arg("intercept"), py::arg("block_elements"), py::arg("slot_memory_bytes"),
             py::arg("aggregators"), py::arg("secret_file"), py::arg("transport"),
             py::arg("congestion_control"), py::arg("interface"), py::arg("first_port"),
             py::arg("last_port"), py::arg("payload_checksum"), py::arg("huge_pages"),
             py::arg("timeout_seconds"), py::arg("connect_timeout_seconds"), py::arg("kernels"),
             py::arg("package_version"));
  module.def("stats", &stats_for_python);
  module.def("reset_stats", [] { Hook::instance().totals().reset(); });
  module.def("build_info", &build_info);
  module.def("tag_of", &tag_of, py::arg("tensor_name"));
}

}  // namespace omniccl::horovod_op

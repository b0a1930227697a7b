#include "attach.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/span.h"
#include "omniccl_allreduce.h"

namespace omniccl::horovod_op {
namespace {

struct Target {
  const char* class_name;
  const char* vtable_symbol;
  const char* execute_symbol;
};

#define OMNICCL_EXECUTE_SIGNATURE \
  "7ExecuteERSt6vectorINS0_16TensorTableEntryESaIS3_EERKNS0_8ResponseE"

constexpr std::array<Target, 2> kTargets{{
    {"GlooAllreduce", "_ZTVN7horovod6common13GlooAllreduceE",
     "_ZN7horovod6common13GlooAllreduce" OMNICCL_EXECUTE_SIGNATURE},
    {"MPIAllreduce", "_ZTVN7horovod6common12MPIAllreduceE",
     "_ZN7horovod6common12MPIAllreduce" OMNICCL_EXECUTE_SIGNATURE},
}};

#undef OMNICCL_EXECUTE_SIGNATURE

// The stock functions, set once when a slot is taken and never changed after.
std::array<ExecuteFunction, kTargets.size()> stock_execute{};

// What the slot of class `Index` points to once it is taken.
template <std::size_t Index>
hvd::Status hooked_execute(hvd::AllreduceOp* op, std::vector<hvd::TensorTableEntry>& entries,
                           const hvd::Response& response) {
  return execute_allreduce(*op, entries, response, stock_execute[Index]);
}

constexpr std::array<ExecuteFunction, kTargets.size()> kHooked{&hooked_execute<0>,
                                                               &hooked_execute<1>};

struct LibraryCloser {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

// The pages of [address, address + size) made writable, read-only again at the end of the scope
// (vtables lie in the part that the loader protects after relocation).
class WritablePages {
 public:
  WritablePages(void* address, std::size_t size) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(address) & ~(page - 1);
    const auto end = (reinterpret_cast<std::uintptr_t>(address) + size + page - 1) & ~(page - 1);
    begin_ = reinterpret_cast<void*>(begin);
    size_ = end - begin;
    if (::mprotect(begin_, size_, PROT_READ | PROT_WRITE) != 0) {
      throw system_error("mprotect of Horovod's vtable", errno);
    }
  }
  ~WritablePages() { ::mprotect(begin_, size_, PROT_READ); }
  WritablePages(const WritablePages&) = delete;
  WritablePages& operator=(const WritablePages&) = delete;

 private:
  void* begin_ = nullptr;
  std::size_t size_ = 0;
};

// The pointers of the vtable at `vtable`, as many as its symbol's size says.
Span<void*> vtable_slots(void* vtable) {
  Dl_info info{};
  void* extra = nullptr;  // the symbol's table entry
  if (::dladdr1(vtable, &info, &extra, RTLD_DL_SYMENT) == 0 || extra == nullptr ||
      info.dli_saddr != vtable) {
    return {};
  }
  const auto* const symbol = static_cast<const ElfW(Sym)*>(extra);
  return {static_cast<void**>(vtable), symbol->st_size / sizeof(void*)};
}

AttachResult attach_class(void* library, std::size_t index) {
  const Target& target = kTargets[index];
  AttachResult result{target.class_name, false, ""};
  void* const vtable = ::dlsym(library, target.vtable_symbol);
  void* const execute = ::dlsym(library, target.execute_symbol);
  if (vtable == nullptr || execute == nullptr) {
    result.reason = "Horovod was built without it";
    return result;
  }
  void* const ours = reinterpret_cast<void*>(kHooked[index]);
  for (void*& slot : vtable_slots(vtable)) {
    if (slot == ours) {
      result.attached = true;
      return result;
    }
    if (slot != execute) continue;
    const WritablePages writable(&slot, sizeof(slot));
    std::memcpy(&stock_execute[index], &execute, sizeof(execute));
    __atomic_store_n(&slot, ours, __ATOMIC_RELEASE);
    result.attached = true;
    return result;
  }
  result.reason = "its vtable has no slot that points to its own Execute (another plug-in?)";
  return result;
}

}  // namespace

std::vector<AttachResult> attach(const std::string& library_path) {
  const Library library(::dlopen(library_path.c_str(), RTLD_NOW | RTLD_NOLOAD));
  if (!library) {
    throw Error(ErrorKind::kPrecondition, "Horovod's library " + library_path + " is not loaded");
  }
  std::vector<AttachResult> results;
  for (std::size_t index = 0; index < kTargets.size(); ++index) {
    results.push_back(attach_class(library.get(), index));
  }
  return results;
}

}  // namespace omniccl::horovod_op

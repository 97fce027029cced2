// Files that others write: the log of a file store, a black box, a secret.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/observe/black_box.h"
#include "lib/observe/black_box_reader.h"
#include "lib/security/secret.h"
#include "rendezvous/file_log.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using namespace tutti::fuzz;

namespace {

/// A file that holds what the fuzzer says now, and goes with this process.
struct File {
  File() : descriptor(::mkostemp(path.data(), O_CLOEXEC)) { require(static_cast<bool>(descriptor)); }
  ~File() { ::unlink(path.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void hold(std::string_view content) const {
    require(::ftruncate(descriptor.get(), 0) == 0);
    require(::pwrite(descriptor.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
  }

  std::string path = "/tmp/tutti-fuzz-XXXXXX";
  Descriptor descriptor;
};

void try_secret(const File& file) {
  const Secret secret = Secret::from_file(file.path);
  require(secret.bytes().size() >= Secret::least_bytes && secret.bytes().size() <= Secret::most_bytes);
}

void try_log(const File& file) {
  rendezvous::FileLog log{file.path};
  for (const rendezvous::Record& record : log.read_new())
    require(record.key.size() + record.value.size() < std::size_t{1} << 20);
  // What was read can be gone on with.
  log.append({rendezvous::RecordKind::set, "key", "value"});
  rendezvous::FileLog again{file.path};
  const auto records = again.read_new();
  require(!records.empty() && records.back().value == "value");
}

void try_box(const File& file) {
  require(::ftruncate(file.descriptor.get(), sizeof(black_box::Memory)) == 0);
  const black_box::Snapshot snapshot = black_box::read(file.descriptor, "fuzz");
  for (const black_box::OperationRecord& entry : snapshot.entries) require(entry.failure.size() < 1 << 20);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  const int kind = input.number() % 3;
  static const File file;
  file.hold(input.rest());
  may_refuse([&] {
    if (kind == 0) try_secret(file);
    if (kind == 1) try_log(file);
    if (kind == 2) try_box(file);
  });
  return 0;
}

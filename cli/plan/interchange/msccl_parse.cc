// Reads MSCCL's XML with pugixml. Numbers are checked against bounds; whether the program is correct is checked
// elsewhere.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "cli/plan/interchange/msccl_import.h"
#include "tutti/error.h"

#ifdef TUTTI_HAS_PUGIXML
#include <pugixml.hpp>
#endif

namespace tutti::cli::interchange {

#ifdef TUTTI_HAS_PUGIXML
namespace {

constexpr int most = 1 << 20;  // limit for every count

class Parse {
 public:
  Parse(std::string_view text, const std::string& file_name) : text_(text), file_name_(file_name) {
    const pugi::xml_parse_result result = document_.load_buffer(text.data(), text.size());
    if (!result) refuse(result.offset, fmt::format("this is not XML: {}", result.description()));
  }

  MscclProgram program() {
    const pugi::xml_node algo = document_.child("algo");
    if (!algo) refuse(0, "there is no element <algo>: this is not a program of MSCCL");
    MscclProgram program;
    program.name = algo.attribute("name").as_string();
    program.proto = algo.attribute("proto").as_string("Simple");
    program.coll = word(algo, "coll");
    program.nchannels = number(algo, "nchannels", 1, most, 1);
    program.nchunksperloop = number(algo, "nchunksperloop", 0, most, 0);
    program.inplace = number(algo, "inplace", 0, 1, 0) != 0;
    program.outofplace = number(algo, "outofplace", 0, 1, program.inplace ? 0 : 1) != 0;
    program.root = number(algo, "root", 0, most, 0);
    const int gpus = number(algo, "ngpus", 1, 4096);
    if (!program.inplace && !program.outofplace) refuse(algo, "it is neither for calls in place nor for others");
    for (const pugi::xml_node node : algo.children("gpu")) program.gpus.push_back(gpu(node, gpus));
    std::sort(program.gpus.begin(), program.gpus.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    for (std::size_t id = 0; id < program.gpus.size(); ++id)
      if (program.gpus[id].id != static_cast<int>(id))
        refuse(algo, fmt::format("gpu {} is missing or defined twice", id));
    if (program.gpus.size() != static_cast<std::size_t>(gpus))
      refuse(algo, fmt::format("ngpus=\"{}\", but there are {}", gpus, program.gpus.size()));
    return program;
  }

 private:
  [[noreturn]] void refuse(std::ptrdiff_t offset, const std::string& why) const {
    const std::size_t end = std::min(text_.size(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    throw Error{ErrorCode::invalid_argument, fmt::format("{}:{}: {}", file_name_, line, why)};
  }
  [[noreturn]] void refuse(const pugi::xml_node& node, const std::string& why) const {
    refuse(node.offset_debug(), fmt::format("<{}>: {}", node.name(), why));
  }

  std::string word(const pugi::xml_node& node, const char* name) const {
    const std::string value = node.attribute(name).as_string();
    if (value.empty()) refuse(node, fmt::format("it has no {}", name));
    return value;
  }

  int number(const pugi::xml_node& node, const char* name, int least, int at_most) const {
    const std::string text = word(node, name);
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc{} || stop != end || value < least || value > at_most)
      refuse(node, fmt::format("{}=\"{}\" is not a number from {} to {}", name, text, least, at_most));
    return value;
  }
  int number(const pugi::xml_node& node, const char* name, int least, int at_most, int otherwise) const {
    return node.attribute(name) ? number(node, name, least, at_most) : otherwise;
  }

  char buffer(const pugi::xml_node& node, const char* name, char otherwise) const {
    const std::string text = node.attribute(name).as_string(std::string(1, otherwise).c_str());
    if (text != "i" && text != "o" && text != "s") refuse(node, fmt::format("{}=\"{}\" is not i, o or s", name, text));
    return text.front();
  }

  MscclGpu gpu(const pugi::xml_node& node, int gpus) const {
    MscclGpu gpu{.id = number(node, "id", 0, gpus - 1)};
    gpu.i_chunks = number(node, "i_chunks", 0, most);
    gpu.o_chunks = number(node, "o_chunks", 0, most);
    gpu.s_chunks = number(node, "s_chunks", 0, most);
    for (const pugi::xml_node tb : node.children("tb")) {
      gpu.blocks.push_back(block(tb, gpu.id, gpus));
      for (std::size_t other = 0; other + 1 < gpu.blocks.size(); ++other)
        if (gpu.blocks[other].id == gpu.blocks.back().id)
          refuse(tb, fmt::format("gpu {} has a thread block {} twice", gpu.id, gpu.blocks[other].id));
    }
    return gpu;
  }

  MscclBlock block(const pugi::xml_node& node, int rank, int gpus) const {
    MscclBlock block{.id = number(node, "id", 0, most)};
    block.send = number(node, "send", -1, gpus - 1);
    block.recv = number(node, "recv", -1, gpus - 1);
    block.chan = number(node, "chan", -1, most, 0);
    if (block.send == rank || block.recv == rank) refuse(node, "a gpu has no messages with itself");
    for (const pugi::xml_node step_node : node.children("step")) block.steps.push_back(step(step_node, block));
    return block;
  }

  MscclStep step(const pugi::xml_node& node, const MscclBlock& block) const {
    const int expected = static_cast<int>(block.steps.size());
    if (number(node, "s", 0, most) != expected)
      refuse(node, fmt::format("thread block {}: step {} must come next (s)", block.id, expected));
    MscclStep step{.type = word(node, "type")};
    step.srcbuf = buffer(node, "srcbuf", 'i');
    step.dstbuf = buffer(node, "dstbuf", 'o');
    step.srcoff = number(node, "srcoff", -1, most, -1);
    step.dstoff = number(node, "dstoff", -1, most, -1);
    step.cnt = number(node, "cnt", 0, most, 0);
    step.depid = number(node, "depid", -1, most, -1);
    step.deps = number(node, "deps", -1, most, -1);
    step.hasdep = number(node, "hasdep", 0, 1, 0) != 0;
    return step;
  }

  std::string_view text_;
  const std::string& file_name_;
  pugi::xml_document document_;
};

}  // namespace

MscclProgram parse_msccl(std::string_view text, const std::string& file_name) {
  return Parse{text, file_name}.program();
}

#else

MscclProgram parse_msccl(std::string_view, const std::string& file_name) {
  throw Error{ErrorCode::unsupported,
              fmt::format("cannot read {}: this program was built without pugixml (libpugixml-dev)", file_name)};
}

#endif

}  // namespace tutti::cli::interchange

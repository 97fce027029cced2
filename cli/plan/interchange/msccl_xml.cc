// Writes MSCCL's XML. Reading needs a parser, see msccl_parse.cc.

#include <fmt/format.h>

#include <iterator>

#include "cli/plan/interchange/msccl.h"

namespace tutti::cli::interchange {
namespace {

/// For an attribute's value.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

void write(std::string& text, const MscclBlock& block) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", block.id, block.send, block.recv,
                 block.chan);
  for (std::size_t i = 0; i < block.steps.size(); ++i) {
    const MscclStep& step = block.steps[i];
    fmt::format_to(out,
                   "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" "
                   "cnt=\"{}\" depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
                   i, step.type, step.srcbuf, step.srcoff, step.dstbuf, step.dstoff, step.cnt, step.depid, step.deps,
                   step.hasdep ? 1 : 0);
  }
  text += "    </tb>\n";
}

}  // namespace

std::string to_xml(const MscclProgram& program) {
  // minBytes and maxBytes are required; the runtime uses the program for sizes between them.
  std::string text = fmt::format(
      "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\" "
      "outofplace=\"{}\" minBytes=\"0\" maxBytes=\"1099511627776\" root=\"{}\">\n",
      escaped(program.name), escaped(program.proto), program.nchannels, program.nchunksperloop, program.gpus.size(),
      program.coll, program.inplace ? 1 : 0, program.outofplace ? 1 : 0, program.root);
  for (const MscclGpu& gpu : program.gpus) {
    fmt::format_to(std::back_inserter(text), "  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n",
                   gpu.id, gpu.i_chunks, gpu.o_chunks, gpu.s_chunks);
    for (const MscclBlock& block : gpu.blocks) write(text, block);
    text += "  </gpu>\n";
  }
  return text + "</algo>\n";
}

}  // namespace tutti::cli::interchange

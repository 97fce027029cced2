#include "lib/message/waiting_messages.h"

#include <fmt/format.h>

#include <utility>

#include "tutti/options.h"

namespace tutti::detail {

const Envelope* WaitingMessages::look_for(int peer, int tag) const {
  const Kept* const waiting = matching_.look_for(peer, tag);
  return waiting ? &(*waiting)->envelope : nullptr;
}

void WaitingMessages::await_receive(Kept kept) noexcept {
  const Envelope& envelope = kept->envelope;
  matching_.keep(envelope.source, envelope.tag, kept);
  std::erase_if(probes_, [&](Message* probe) {
    const bool found = (probe->peer == any_source || probe->peer == envelope.source) &&
                       (probe->tag == any_tag || probe->tag == envelope.tag);
    if (found) {
      active_.assign(*probe, envelope);
      active_.end(*probe);
    }
    return found;
  });
}

/// It is among the last ones.
std::optional<WaitingMessages::Kept> WaitingMessages::granted_to(int source, std::uint32_t sender_slot) noexcept {
  for (Kept kept = unexpected_.end(); kept != unexpected_.begin();) {
    --kept;
    if (kept->granted && !kept->complete && kept->envelope.source == source && kept->sender_slot == sender_slot)
      return kept;
  }
  return std::nullopt;
}

Unexpected WaitingMessages::remove(Kept kept) {
  Unexpected message = std::move(*kept);
  unexpected_.erase(kept);
  return message;
}

std::string WaitingMessages::unclaimed(int peer) const {
  for (const Unexpected& waiting : unexpected_) {
    const Envelope& envelope = waiting.envelope;
    if (waiting.taker || (peer != any_source && peer != envelope.source)) continue;
    return fmt::format("a message of {} x {} from rank {} with tag {}", envelope.length / size_of(envelope.type),
                       name_of(envelope.type), envelope.source, envelope.tag);
  }
  return "";
}

void WaitingMessages::clear() {
  matching_.clear();
  unexpected_.clear();
  probes_.clear();
}

}  // namespace tutti::detail

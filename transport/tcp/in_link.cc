// The receiving end of a link.
//
// One recvmsg usually brings the rest of a message and the beginning of the next ones. Its first piece is the place
// where the payload belongs, its second piece the read-ahead. So a large payload is read straight into its destination,
// and many small messages come with one call and are copied once.
//
// If the sink knows which message must come next, one recvmsg brings its header and its payload, which is read to its
// destination, or to the chunk if it will be taken as views.
//
// Views lie in a chunk that all links share, and that is empty between calls: what is left there, less than 64 bytes,
// goes back to the read-ahead. So pieces stay multiples of 64 bytes.

#include "transport/tcp/in_link.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/link_errors.h"
#include "transport/tcp/out_link.h"

namespace tutti::transport::tcp {
namespace {

constexpr int reads_per_pass = 16;
constexpr int most_drained = 256;  // in chunks: more than the buffers of a connection hold
/// One call copies at most this many bytes, so that other links get their turn.
constexpr std::size_t bytes_per_read = std::size_t{1} << 20;
constexpr std::size_t view_unit = 64;
/// Payloads that are read together with their headers. Shorter ones come with them into the read-ahead in any case;
/// from longer ones nothing was gained.
constexpr std::size_t least_expected = ReadAhead::capacity - frame_size + 1;
constexpr std::size_t most_expected = 64 * 1024;

std::size_t limited(std::uint64_t bytes, std::size_t limit) {
  return static_cast<std::size_t>(std::min<std::uint64_t>(bytes, limit));
}

}  // namespace

InLink::InLink(TcpContext& shared, int peer, Channel channel, std::vector<net::Socket> sockets, OutLink* writer)
    : Link(peer, channel), context_(shared), sockets_(std::move(sockets)), striping_(sockets_.size()), writer_(writer) {
  warm();
}

InLink::~InLink() {
  if (writer_) writer_->reader_gone();
  disconnect();
  std::erase(context_.hot, this);
  std::erase_if(context_.losses, [this](const TcpContext::Loss& loss) { return loss.link == this; });
}

void InLink::warm() noexcept {
  misses_ = 0;
  if (!hot_) context_.hot.push_back(this);
  hot_ = true;
  watch();
}

bool InLink::has_replied() const noexcept { return writer_ && writer_->sent_bytes() != sent_before_; }

/// Where messages go one way only, the kernel acknowledges every message, or every second one, within the read that
/// takes it. Within a host that takes as long as the rest of the read, since the packet passes both ends of the
/// connection within the call. So this rank does it while it waits for the next message, unless a message of its own
/// has carried the acknowledgement. Where ranks share cores, others could have run meanwhile, and a message of its own
/// may come soon. So several messages are acknowledged together (all_reduce of 4 B among 4 ranks on 2 cores, each by
/// itself 39.5 us, four together 28.7).
void InLink::acknowledge() noexcept {
  unacknowledged_ = 0;
  if (has_replied() || context_.tls_proxies || !context_.is_within_host(peer())) return;
  net::set_option(sockets_[turn_], IPPROTO_TCP, TCP_QUICKACK, 2);  // now, if the kernel has not done so
  net::set_option(sockets_[turn_], IPPROTO_TCP, TCP_QUICKACK, 0);  // and not at once for the next message
}

/// Watches the connection whose turn it is. What comes on others before their turn wakes this rank once at most; so
/// does what comes behind a parked message.
void InLink::watch() noexcept {
  const std::uint32_t bit = std::uint32_t{1} << turn_;
  if ((resting_ & bit) != 0) {
    resting_ &= ~bit;
    return context_.reactor.wake(sockets_[turn_].get());
  }
  if ((watched_ & bit) != 0) return;
  watched_ |= bit;
  context_.reactor.watch(sockets_[turn_].get(), [this, connection = turn_] {
    if (connection == turn_) {
      wanted_ = std::max(wanted_, 1);
      if (!idle()) return warm();
    }
    resting_ |= std::uint32_t{1} << connection;
    context_.reactor.rest(sockets_[connection].get());
  });
}

void InLink::disconnect() noexcept {
  for (std::size_t i = 0; i < sockets_.size(); ++i)
    if ((watched_ >> i & 1) != 0) context_.reactor.unwatch(sockets_[i].get());
  watched_ = resting_ = 0;
  sockets_.clear();
}

void InLink::resume() noexcept {
  if (phase_ == Phase::over) return;  // the peer has left; waits for it end at their deadlines
  if (phase_ == Phase::offered) offer_again_ = true;
  if (!may_come_at_any_time(channel())) ++wanted_;  // an iprobe() resumes where they may, and would count without end
  warm();
}

void InLink::expect(std::size_t length, std::byte* memory) noexcept {
  const std::size_t most = memory ? most_expected : std::min(most_expected, context_.chunk.size());
  expected_ = length >= least_expected && length <= most ? length : 0;
  expected_memory_ = memory;
}

bool InLink::progress() noexcept {
  bool moved = digest_and_reply();
  for (int reads = 0; reads < reads_per_pass && !idle(); ++reads) {
    const net::Moved read_now = read();
    if (read_now.failed()) {
      lost(context_.reason_of_end(sockets_, read_now.error));
      return true;
    }
    if (read_now.bytes == 0) break;
    moved = true;
    digest_and_reply();
    if (read_now.error == EAGAIN) break;
  }
  if (!moved && unacknowledged_ >= context_.messages_per_acknowledgement && !idle()) acknowledge();
  misses_ = moved ? 0 : misses_ + 1;
  return moved;
}

// ---- Interpreting what has been read -----------------------------------------------------------------------------

bool InLink::digest_and_reply() noexcept {
  context_.digesting = true;
  const bool moved = digest();
  context_.digesting = false;
  for (OutLink* const link : context_.replies) link->write_replies();
  context_.replies.clear();
  return moved;
}

bool InLink::digest() noexcept {
  for (bool moved = false;; moved = true) {
    switch (phase_) {
      case Phase::header:
        if (ahead_.size() < frame_size) return moved;
        begin_message();
        break;
      case Phase::offered:
        if (!offer_again_) return moved;
        offer();
        break;
      case Phase::memory: {
        const std::size_t taken = ahead_.take(memory_);
        memory_ = memory_.subspan(taken);
        if (!memory_.empty()) return moved || taken > 0;
        finish();
        break;
      }
      case Phase::views:
        if (rest_ > ahead_.size()) return moved;  // read_views() takes these bytes together with the next ones
        if (rest_ > 0) {
          const auto piece = context_.chunk.first(static_cast<std::size_t>(rest_));
          ahead_.take(piece);
          context_.sink->view(*this, piece);
        }
        finish();
        break;
      case Phase::abort:
        if (ahead_.size() < frame_.length) return moved;
        lose(Certainty::sure, told_by(frame_, ahead_.bytes().first(static_cast<std::size_t>(frame_.length))));
        return true;
      case Phase::over:
        return moved;
    }
  }
}

void InLink::begin_message() noexcept {
  const auto frame = decode(ahead_.bytes().first<frame_size>());
  ahead_.drop(frame_size);
  if (!frame || (frame->kind == FrameKind::abort && frame->length > max_reason))
    return lose(Certainty::sure,
                {ErrorCode::mismatch,
                 fmt::format("rank {} got bytes from {} that are no frame of tutti, after {} bytes that were; "
                             "both must run the same version",
                             context_.rank, context_.name_of(peer()), received_bytes_),
                 peer()});
  received_bytes_ += frame_size + frame->length;
  frame_ = *frame;
  if (frame_.kind == FrameKind::abort) ahead_.add(std::exchange(early_, {}));
  rest_ = frame_.length;
  switch (frame_.kind) {
    case FrameKind::bye:
      phase_ = Phase::over;
      if (writer_) std::exchange(writer_, nullptr)->peer_left();
      return disconnect();
    case FrameKind::abort:
      phase_ = Phase::abort;
      return;
    default:
      unused_ = false;
      phase_ = Phase::offered;
      offer_again_ = true;
  }
}

void InLink::offer() noexcept {
  offer_again_ = false;
  const Acceptance acceptance = context_.sink->arrived(*this, frame_);
  if (early_.size() > rest_ && acceptance.kind != Acceptance::Kind::park)
    return lose(Certainty::sure, {ErrorCode::mismatch,
                                  fmt::format("rank {} expected {} bytes from {}, and {} came", context_.rank,
                                              expected_, context_.name_of(peer()), rest_),
                                  peer()});
  switch (acceptance.kind) {
    case Acceptance::Kind::park:
      return;
    case Acceptance::Kind::memory:
      memory_ = acceptance.memory.first(static_cast<std::size_t>(frame_.length));
      phase_ = Phase::memory;
      break;
    case Acceptance::Kind::views:
      phase_ = Phase::views;
  }
  take_early_bytes();
}

/// Those that came with the header are in their place already, or in the chunk.
void InLink::take_early_bytes() noexcept {
  const std::span<std::byte> early = std::exchange(early_, {});
  expected_ = 0;
  if (phase_ == Phase::memory) {
    if (!early.empty() && early.data() != memory_.data()) std::memcpy(memory_.data(), early.data(), early.size());
    memory_ = memory_.subspan(early.size());
  } else if (!early.empty()) {
    show(early);
  }
}

/// Passes on what is in the chunk, and puts back what would make an odd piece.
void InLink::show(std::span<std::byte> here) noexcept {
  const std::size_t shown = here.size() == rest_ ? here.size() : here.size() - here.size() % view_unit;
  ahead_.add(here.subspan(shown));
  rest_ -= shown;
  if (shown > 0) context_.sink->view(*this, here.first(shown));
}

void InLink::finish() noexcept {
  phase_ = Phase::header;
  wanted_ = std::max(wanted_ - 1, 0);
  unacknowledged_ = has_replied() ? 1 : unacknowledged_ + 1;
  if (writer_) sent_before_ = writer_->sent_bytes();
  context_.sink->received(*this);
}

// ---- Reading -----------------------------------------------------------------------------------------------------

net::Moved InLink::read() noexcept {
  switch (phase_) {
    case Phase::memory:
      return read_memory();
    case Phase::views:
      return read_views();
    default:
      return read_ahead();
  }
}

/// Reads from the connection whose turn it is, and cuts `first` to what it may bring of that. If it returns EAGAIN
/// together with bytes, the socket had no more.
net::Moved InLink::read_pieces(std::span<std::byte>& first, std::span<std::byte> second) noexcept {
  const std::uint64_t left = striping_.left_at(position_);
  first = first.first(limited(left, first.size()));
  second = second.first(limited(left - first.size(), second.size()));
  std::array<iovec, 2> pieces{iovec{first.data(), first.size()}, iovec{second.data(), second.size()}};
  net::Moved moved = net::read_some(sockets_[turn_], std::span(pieces).first(second.empty() ? 1 : 2));
  position_ += moved.bytes;
  if (moved.bytes == left) {
    turn_ = striping_.connection_at(position_);
    watch();
  }
  if (moved.error == 0 && moved.bytes < first.size()) moved.error = EAGAIN;
  return moved;
}

net::Moved InLink::read_ahead() noexcept {
  if (phase_ == Phase::header && ahead_.size() == 0 && expected_ > 0) return read_expected();
  std::span<std::byte> room = ahead_.room();
  const net::Moved moved = read_pieces(room, {});
  ahead_.filled(moved.bytes);
  return moved;
}

/// Reads a header to the read-ahead, and what follows it to where the payload is expected. It is taken at once.
net::Moved InLink::read_expected() noexcept {
  std::span<std::byte> header = ahead_.room().first(frame_size);
  early_ = expected_memory_ ? std::span{expected_memory_, expected_} : context_.chunk.first(expected_);
  const std::size_t wanted = limited(striping_.left_at(position_), frame_size + expected_);
  net::Moved moved = read_pieces(header, early_);
  const std::size_t in_header = std::min(moved.bytes, frame_size);
  ahead_.filled(in_header);
  early_ = early_.first(moved.bytes - in_header);
  if (moved.error == 0 && moved.bytes < wanted) moved.error = EAGAIN;
  return moved;
}

net::Moved InLink::read_memory() noexcept {
  std::span<std::byte> wanted = memory_.first(std::min(memory_.size(), bytes_per_read));
  const bool is_all = wanted.size() == memory_.size();
  const net::Moved moved = read_pieces(wanted, is_all ? ahead_.room() : std::span<std::byte>{});
  const std::size_t arrived = std::min(moved.bytes, wanted.size());
  memory_ = memory_.subspan(arrived);
  ahead_.filled(moved.bytes - arrived);
  return moved;
}

net::Moved InLink::read_views() noexcept {
  const std::size_t limit = limited(rest_, context_.chunk.size());
  const std::size_t had = ahead_.take(context_.chunk.first(limit));
  const std::span<std::byte> room = ahead_.room();
  std::span<std::byte> wanted = context_.chunk.subspan(had, limit - had);
  const net::Moved moved = read_pieces(wanted, limit == rest_ ? room : std::span<std::byte>{});

  const std::size_t here = std::min(had + moved.bytes, limit);
  ahead_.filled(had + moved.bytes - here);
  show(context_.chunk.first(here));
  return moved;
}

// ---- The end -----------------------------------------------------------------------------------------------------

std::vector<net::Socket> InLink::share(OutLink& writer) noexcept {
  std::vector<net::Socket> twins = duplicates(sockets_);
  if (!twins.empty()) writer_ = &writer;
  return twins;
}

void InLink::drain() noexcept {
  phase_ = Phase::over;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    for (int reads = 0; reads < most_drained; ++reads) {
      const net::Moved moved = net::read_some(sockets_[i], context_.chunk);
      if (moved.error == EAGAIN) break;
      if (moved.error != 0) return disconnect();
    }
  }
}

void InLink::dismiss(std::span<const std::byte> closing_message) noexcept {
  phase_ = Phase::over;
  if (sockets_.empty() || writer_) return;
  net::write_some(sockets_.front(), closing_message);
  disconnect();
}

void InLink::follow(const Error& reason) noexcept {
  if (writer_) std::exchange(writer_, nullptr)->peer_failed(Certainty::sure, reason);
  silence();
}

/// Ends without telling the sink.
void InLink::silence() noexcept {
  disconnect();
  phase_ = Phase::over;
  std::erase_if(context_.losses, [this](const TcpContext::Loss& loss) { return loss.link == this; });
}

void InLink::lost(int error) noexcept {
  const bool inside = phase_ != Phase::header || ahead_.size() > 0;
  if (writer_) {
    std::exchange(writer_, nullptr)->peer_lost(error);
    if (unused_) return silence();
  }
  lose(Certainty::echo,
       {ErrorCode::peer_lost,
        fmt::format("rank {} lost {} {} {} bytes of messages: {}; {}", context_.rank, context_.name_of(peer()),
                    inside ? "in the middle of" : "after", received_bytes_, net::text_of(error), probable_cause(error)),
        peer()});
}

void InLink::lose(Certainty certainty, const Error& reason) noexcept {
  disconnect();
  phase_ = Phase::over;
  if (writer_) {
    std::exchange(writer_, nullptr)->peer_failed(certainty, reason);
    if (unused_) return;
  }
  context_.lose(*this, certainty, reason);
}

}  // namespace tutti::transport::tcp

#include "transport/transport.h"

namespace tutti::transport {

Link::~Link() = default;
Transport::~Transport() = default;

Board* Transport::board(Channel, std::span<const int>) { return nullptr; }

}  // namespace tutti::transport

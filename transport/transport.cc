#include "transport/transport.h"

namespace tutti::transport {

Link::~Link() = default;
Transport::~Transport() = default;

}  // namespace tutti::transport

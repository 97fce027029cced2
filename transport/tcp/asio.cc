// The only place where Asio is compiled. All other files see declarations only.

#include <asio/impl/src.hpp>

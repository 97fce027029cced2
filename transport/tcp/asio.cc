// The one place where Asio is compiled; everybody else sees its declarations only.

#include <asio/impl/src.hpp>

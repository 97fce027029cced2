// The one place where Asio's TLS is compiled, where there is any.

#include <asio/ssl/impl/src.hpp>

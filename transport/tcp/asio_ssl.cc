// The only place where Asio's TLS is compiled, in builds with TLS.

#include <asio/ssl/impl/src.hpp>

// Where the program compiles its Asio.
#include <asio/impl/src.hpp>

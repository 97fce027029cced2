// The networks that are part of the program, which are ordinary network files.

#include "cli/simulate/network.h"

namespace tutti::cli::simulate {

const std::vector<BuiltinNetwork>& builtin_networks() {
  static const std::vector<BuiltinNetwork> networks{
      {
          "summit",
#include "cli/simulate/summit.inc"
      },
      {
          "summit-physical",
#include "cli/simulate/summit_physical.inc"
      },
      {
          "100g",
#include "cli/simulate/100g.inc"
      },
      {
          "h200",
#include "cli/simulate/h200.inc"
      },
  };
  return networks;
}

}  // namespace tutti::cli::simulate

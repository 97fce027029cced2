#pragma once

#include <string_view>

namespace tutti {

// Kubernetes puts the addresses of all services of a namespace into the environment of its pods ("service links"). For
// a service called "tutti-store" these are TUTTI_STORE_SERVICE_HOST, TUTTI_STORE_SERVICE_PORT,
// TUTTI_STORE_PORT=tcp://10.0.0.1:29500, TUTTI_STORE_PORT_29500_TCP_ADDR and so on. Users do not choose these names.

/// True when name and value are those of a service link.
bool is_service_link(std::string_view name, std::string_view value);

/// True for "tcp://10.0.0.1:29500", which the variable <SERVICE>_PORT of a service link has instead of a port.
bool is_service_address(std::string_view value);

}  // namespace tutti

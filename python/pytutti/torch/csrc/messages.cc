// Messages between two ranks.

#include "backend.h"
#include "launch.h"
#include "tensors.h"

namespace tutti_torch {
WorkPtr TuttiBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  const Element element = element_of(tensor);
  Launch launch{*this, c10d::OpType::SEND, "tutti:send", MessageOptions{{Lane::Kind::sends, to, tag}}, tensors};
  const void* const data = launch.read(tensor);
  launch.start([&](const tutti_call_options* how) {
    return tutti_send(launch.comm(), data, count_of(tensor, element), element.type, to, tag, how);
  });
  return launch.finish(tensors);
}

WorkPtr TuttiBackend::recv(Tensors& tensors, int from, int tag) {
  return receive(tensors, from, tag, c10d::OpType::RECV, "tutti:recv");
}

WorkPtr TuttiBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, TUTTI_ANY_SOURCE, tag, c10d::OpType::RECVANYSOURCE, "tutti:recvAnySource");
}

WorkPtr TuttiBackend::receive(Tensors& tensors, int from, int tag, c10d::OpType type, const char* title) {
  const at::Tensor& tensor = only(tensors, "recv");
  const Element element = element_of(tensor);
  Launch launch{*this, type, title, MessageOptions{}, tensors};
  void* const data = launch.write_by_host(tensor);
  launch.start([&](const tutti_call_options* how) {
    return tutti_recv(launch.comm(), data, count_of(tensor, element), element.type, from, tag, how, nullptr);
  });
  return launch.finish(tensors);
}

}  // namespace tutti_torch

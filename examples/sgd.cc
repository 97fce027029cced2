// Data-parallel training: every rank has the whole model and a share of each batch. Gradients are added up over all
// ranks, so every rank takes the same step: the loss falls along the same curve whatever the number of ranks. Backward
// runs from the last layer to the first, and each layer's gradient is a bucket: its all_reduce starts as soon as it is
// complete, and runs while the layers before it are still being computed.
#include <tutti/tutti.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

using Vector = std::vector<double>;

/// y = tanh(W x + b). A row of `weights` is a row of W followed by its b.
struct Layer {
  Layer(std::size_t in, std::size_t out, std::mt19937& random) : inputs(in), weights((in + 1) * out) {
    for (double& w : weights) w = (static_cast<double>(random()) / 2147483648.0 - 1) / std::sqrt(in);
  }
  Vector forward(const Vector& x) const {
    Vector y;
    for (std::size_t at = 0; at < weights.size(); at += inputs + 1)
      y.push_back(std::tanh(std::inner_product(x.begin(), x.end(), &weights[at], weights[at + inputs])));
    return y;
  }
  /// Adds to the gradient; returns dloss/dx for dloss/dy.
  Vector backward(const Vector& x, const Vector& y, const Vector& dy) {
    Vector dx(inputs);
    for (std::size_t k = 0, at = 0; k < y.size(); ++k) {
      const double slope = dy[k] * (1 - y[k] * y[k]);
      for (std::size_t i = 0; i < inputs; ++i, ++at) gradient[at] += slope * x[i], dx[i] += slope * weights[at];
      gradient[at++] += slope;
    }
    return dx;
  }
  std::size_t inputs;
  Vector weights, gradient;
};

/// Two spirals, one inside the other: even points belong to one, odd points to the other.
Vector spiral(std::size_t point) {
  const double along = static_cast<double>(point / 2 * 37 % 128) / 128;  // mixed, so that each batch has all of it
  const double angle = 5 * along + (point % 2 == 0 ? 0 : std::acos(-1.0));
  return {(0.2 + along) * std::cos(angle), (0.2 + along) * std::sin(angle)};
}

int main() {
  auto comm = tutti::connect();
  const auto rank = static_cast<std::size_t>(comm.rank()), ranks = static_cast<std::size_t>(comm.size());
  constexpr std::size_t points = 256, batch = 64, epochs = 200;
  std::mt19937 random(7);  // the same weights on every rank
  std::vector<Layer> layers = {{2, 16, random}, {16, 16, random}, {16, 1, random}};
  Vector loss(1);
  for (std::size_t epoch = 1; epoch <= epochs; ++epoch) {
    loss[0] = 0;
    for (std::size_t first = 0; first < points; first += batch) {
      std::vector<std::vector<Vector>> values(layers.size() + 1);  // of each layer and sample
      std::vector<Vector> error;
      for (std::size_t i = first + rank; i < first + batch; i += ranks) {  // this rank's share
        values[0].push_back(spiral(i));
        for (std::size_t l = 0; l < layers.size(); ++l) values[l + 1].push_back(layers[l].forward(values[l].back()));
        error.push_back({values.back().back()[0] - (i % 2 == 0 ? 1 : -1)});
        loss[0] += error.back()[0] * error.back()[0] / points;
      }
      std::vector<tutti::Work> buckets(layers.size());
      for (std::size_t l = layers.size(); l-- > 0;) {
        layers[l].gradient.assign(layers[l].weights.size(), 0);
        for (std::size_t s = 0; s < error.size(); ++s)
          error[s] = layers[l].backward(values[l][s], values[l + 1][s], error[s]);
        buckets[l] = comm.async().all_reduce(layers[l].gradient, tutti::sum);
      }
      for (tutti::Work& bucket : buckets) bucket.wait();
      for (Layer& layer : layers)
        for (std::size_t w = 0; w < layer.weights.size(); ++w) layer.weights[w] -= 0.4 / batch * layer.gradient[w];
    }
    comm.all_reduce(loss, tutti::sum);
    if (comm.rank() == 0 && epoch % 20 == 0) std::printf("epoch %3zu  loss %.6f\n", epoch, loss[0]);
  }
  return loss[0] < 0.05 ? 0 : 1;
}

// Exponential families that hold the power law: densities exp(-b y - c g(y)) in y = ln(x / xmin),
// c >= 0. At c = 0 they are the power law of alpha = b + 1.
#pragma once

#include <functional>
#include <limits>
#include <optional>

namespace kvreplay::powerlaw {

enum class Tilt {
  square,      ///< g = y^2: the lognormal, c = 1 / (2 sigma^2)
  exponential  ///< g = e^y - 1: the power law with a cut-off, c = lambda xmin
};

struct TiltedMoments {
  double log_mass = 0;  ///< ln of the integral of exp(-b y - c g(y))
  double mean_y = 0;
  double mean_g = 0;
};

/// Over y from `from` to `to`, either of which may be far from where the mass is; about 12 digits.
/// The integral must be finite, and c > 0 where g is exponential.
TiltedMoments tilted_moments(Tilt tilt, double b, double c, double from = 0,
                             double to = std::numeric_limits<double>::infinity());

/// How the mean log-likelihood of data changes with b and c. With fixed means of data, which are
/// m and mg: (E[y] - m, E[g] - mg).
struct Slopes {
  double along_b = 0;
  double along_c = 0;
};

struct TiltedFit {
  double b = 0;
  double c = 0;
};

/// The b of the largest likelihood at a fixed c; `scale`: of the data's mean y. None where no b is
/// above `least`.
std::optional<double> fit_b(const std::function<double(double b)>& along_b, double guess,
                            double scale, double least = -std::numeric_limits<double>::infinity());

/// Where both slopes are zero; `scale_y` and `scale_g` are of the data's means. None: the
/// likelihood only grows towards c = 0.
std::optional<TiltedFit> fit_tilted(const std::function<Slopes(double b, double c)>& slopes,
                                    double scale_y, double scale_g);

}  // namespace kvreplay::powerlaw

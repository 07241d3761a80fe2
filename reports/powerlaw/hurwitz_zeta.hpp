// Sums of powers over the integers from one on.
#pragma once

namespace kvreplay::powerlaw {

/// Sum over k = 0, 1, ... of (q + k)^-s; s > 1, q > 0. 0 where it is below what a double holds.
double hurwitz_zeta(double s, double q);

/// The largest s for which the sum is known to be a double's.
double largest_zeta_exponent(double q);

}  // namespace kvreplay::powerlaw

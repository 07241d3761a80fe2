// H2O as deployed, with the accumulated score divided by the number of rows it was summed over, so
// that old tokens have no head start. The paper reports it as worse.
#include "policies/composition.hpp"
#include "policies/registry.hpp"

namespace kvreplay {
namespace {

std::unique_ptr<CachePolicy> make(const Arguments& arguments, const Setting& setting) {
  return heavy_policy("h2o-mean", arguments, setting, Score::Form::mean);
}

const Registration registration({.name = "h2o-mean",
                                 .summary = "the highest mean attention and a sliding window",
                                 .parameters = heavy_policy_parameters(Score::Form::mean),
                                 .needs = {Need::rows},
                                 .make = &make});

}  // namespace
}  // namespace kvreplay

// A divergence is counted once, however many ranks report it, and whatever follows from it.
#include "coordinator/divergence.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/coordinator.h"
#include "gtest/gtest.h"

namespace zerofleet::coordinator {
namespace {

class DivergenceTest : public ::testing::Test {
 protected:
  // Two ranks that train.
  static Coordinator Training(const std::string& on_divergence) {
    FleetParameters parameters;
    parameters.units = {{"w", 0, 64}};
    parameters.elements = 64;
    parameters.config.mutable_parallel()->set_tensor(1);
    parameters.config.mutable_parallel()->set_workers(2);
    parameters.config.mutable_restart()->set_max_per_rank(3);
    parameters.config.mutable_restart()->set_form_timeout_seconds(60);
    parameters.config.mutable_restart()->set_load_timeout_seconds(60);
    parameters.config.mutable_restart()->set_heartbeat_timeout_seconds(5);
    parameters.config.mutable_divergence()->set_max_rollbacks(3);
    parameters.config.set_on_divergence(on_divergence);
    parameters.config.set_steps(100);
    Coordinator coordinator(parameters, 0);
    for (const char* text : {"hello { host: 'a' pid: 1 }", "ready { config_digest: 'C' transport_address: 'x' }",
                             "entered {}", "load_result { ok: true }"}) {
      for (MemberId id : {1, 2}) Say(coordinator, id, text);
    }
    EXPECT_EQ(coordinator.fleet().phase, Phase::kTraining);
    return coordinator;
  }

  static void Say(Coordinator& coordinator, MemberId id, const std::string& text) {
    SayIn(coordinator, coordinator.fleet().generation, id, text);
  }
  static void SayIn(Coordinator& coordinator, uint64_t generation, MemberId id, const std::string& text) {
    MessageReceived received{id, {}};
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &received.message)) << text;
    received.message.set_generation(generation);
    coordinator.Step(received, 1);
  }

  // Both ranks report the divergence of the view that they were in.
  static void Diverge(Coordinator& coordinator, bool in_view, const std::string& kind) {
    const uint64_t generation = coordinator.fleet().generation;
    for (MemberId id : {1, 2}) {
      SayIn(coordinator, generation, id,
            absl::StrCat("failure { code: 9 step: 2 in_view: ", in_view ? "true" : "false",
                         " message: 'step 3: training has diverged' divergence { step: 3 cause: 'loss 9' ", kind,
                         " } }"));
    }
  }
};

TEST_F(DivergenceTest, CountsOnceWhetherTheRunEndsOrGoesBack) {
  Coordinator stops = Training("stop");
  Diverge(stops, /*in_view=*/false, "");
  EXPECT_EQ(stops.fleet().phase, Phase::kFailed);
  EXPECT_EQ(stops.fleet().counters.not_finite, 1u);
  Coordinator goes_back = Training("rollback");
  Diverge(goes_back, /*in_view=*/true, "");
  EXPECT_EQ(goes_back.fleet().phase, Phase::kRecovering);
  EXPECT_EQ(goes_back.fleet().counters.not_finite, 1u);
  EXPECT_EQ(goes_back.fleet().counters.spikes, 0u);
}

TEST_F(DivergenceTest, ASpikeIsOfAnotherKind) {
  Coordinator goes_back = Training("rollback");
  Diverge(goes_back, /*in_view=*/true, "spike: true");
  EXPECT_EQ(goes_back.fleet().counters.not_finite, 0u);
  EXPECT_EQ(goes_back.fleet().counters.spikes, 1u);
}

}  // namespace
}  // namespace zerofleet::coordinator

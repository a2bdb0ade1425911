// Which loss is the lowest, which checkpoint has it, and when patience is over.
#include "worker/trainer/best_loss.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::trainer {
namespace {

v1::EvaluateEvent Event(int64_t step, double all, double wiki) {
  v1::EvaluateEvent event;
  event.set_step(step);
  event.set_loss(all);
  v1::SetLoss& set = *event.add_sets();
  set.set_name("wiki");
  set.set_loss(wiki);
  return event;
}

v1::EvaluateConfig Config(const char* best, int64_t patience) {
  v1::EvaluateConfig config;
  config.set_best(best);
  config.set_patience(patience);
  return config;
}

TEST(BestLoss, IsOfTheNamedSet) {
  BestLoss all(Config("all", 2)), wiki(Config("wiki", 2)), none(Config("", 0));
  for (BestLoss* best : {&all, &wiki, &none}) {
    best->Evaluated(Event(10, 4, 3));
    best->Evaluated(Event(20, 3, 3.5));
  }
  EXPECT_EQ(all.state().step(), 20);
  EXPECT_EQ(wiki.state().step(), 10);
  EXPECT_EQ(wiki.state().loss(), 3);
  EXPECT_EQ(wiki.state().stale_evaluations(), 1);
  EXPECT_EQ(none.state().step(), 0);
}

TEST(BestLoss, PatienceEnds) {
  BestLoss best(Config("all", 2));
  best.Evaluated(Event(10, 4, 0));
  best.Evaluated(Event(20, NAN, 0));
  EXPECT_FALSE(best.stops());
  // Another process goes on from the stored state.
  BestLoss again(Config("all", 2), best.state());
  again.Evaluated(Event(30, 4, 0));
  EXPECT_TRUE(again.stops());
  EXPECT_EQ(again.Reason(),
            "stopping: 2 evaluations in a row found no lower loss of the validation data than 4 at step 10");
  again.Evaluated(Event(40, 3.5, 0));
  EXPECT_FALSE(again.stops());
}

TEST(BestLoss, TheBestCheckpointIsOneThatWasEvaluated) {
  BestLoss best(Config("all", 0));
  best.Saved(5);
  EXPECT_EQ(best.state().saved_step(), 0);
  best.Evaluated(Event(10, 4, 0));
  best.Saved(10);
  best.Evaluated(Event(15, 3, 0));
  best.Evaluated(Event(20, 3.5, 0));
  best.Saved(20);
  EXPECT_EQ(best.state().step(), 15);
  EXPECT_EQ(best.state().saved_step(), 20);
  best.Evaluated(Event(30, 3.75, 0));
  best.Saved(30);
  EXPECT_EQ(best.state().saved_step(), 20);
  EXPECT_EQ(best.state().saved_loss(), 3.5);
}

// Otherwise no later checkpoint would count that does not beat the one that is not there.
TEST(BestLoss, ACheckpointThatCouldNotBeStoredIsNotTheBest) {
  BestLoss best(Config("all", 0));
  best.Evaluated(Event(10, 4, 0));
  best.Saved(10);
  best.Evaluated(Event(20, 3, 0));
  best.Saved(20);
  best.SaveFailed(20);
  EXPECT_EQ(best.state().step(), 20);
  EXPECT_EQ(best.state().saved_step(), 10);
  EXPECT_EQ(best.state().saved_loss(), 4);
  best.Evaluated(Event(30, 3.5, 0));
  best.Saved(30);
  EXPECT_EQ(best.state().saved_step(), 30);
  best.SaveFailed(20);
  EXPECT_EQ(best.state().saved_step(), 30);
  best.SaveFailed(30);
  EXPECT_EQ(best.state().saved_step(), 10);
  best.Saved(30);  // tried again
  EXPECT_EQ(best.state().saved_step(), 30);
  EXPECT_EQ(best.state().saved_loss(), 3.5);
}

}  // namespace
}  // namespace zerofleet::trainer

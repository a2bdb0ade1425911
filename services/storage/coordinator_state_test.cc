// The state file survives, and a damaged one is refused; see coordinator_state.h.
#include "services/storage/coordinator_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/file_calls_testing.h"

namespace zerofleet::services {
namespace {

using testing::HasSubstr;

class CoordinatorStateTest : public testing::Test {
 protected:
  CoordinatorStateTest() { EXPECT_TRUE(RemoveTree(dir_).ok()); }
  ~CoordinatorStateTest() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }

  absl::Status StatusOfText(const std::string& text) {
    EXPECT_TRUE(CreateDirectories(dir_).ok());
    EXPECT_TRUE(WriteFileAtomically(CoordinatorStatePath(dir_), text).ok());
    return ReadCoordinatorState(dir_).status();
  }

  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_coordinator_state_" + std::to_string(getpid()));
};

TEST_F(CoordinatorStateTest, NoFileIsAFreshState) {
  absl::StatusOr<coordinator::CoordinatorState> state = ReadCoordinatorState(dir_);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(*state, coordinator::CoordinatorState());
}

TEST_F(CoordinatorStateTest, AFileThatCannotBeLookedAtIsNotAbsent) {
  ASSERT_TRUE(CreateDirectories(dir_).ok());
  ASSERT_EQ(symlink("coordinator.json", CoordinatorStatePath(dir_).c_str()), 0);  // stat says ELOOP
  const absl::Status status = ReadCoordinatorState(dir_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), HasSubstr("coordinator.json: cannot stat: "));
}

TEST_F(CoordinatorStateTest, WhatIsWrittenIsRead) {
  ASSERT_TRUE(WriteCoordinatorState(dir_, {7, -1, {}}).ok());
  for (const coordinator::CoordinatorState& written :
       {coordinator::CoordinatorState{8, 200, {}},
        coordinator::CoordinatorState{
            9, 200, {{210, 200, 3200, 3360, "loss nan, gradient norm nan"}, {205, -1, 3440, 3440, "a \"spike\""}}},
        coordinator::CoordinatorState{
            9, 200, {}, {{200, "0123456789abcdef0123456789abcdef"}, {0, "ffffffffffffffffffffffffffffffff"}}},
        coordinator::CoordinatorState{9, 200, {}, {}, "0a4e456789abcdef0123456789abcdef"}}) {
    ASSERT_TRUE(WriteCoordinatorState(dir_, written).ok());
    absl::StatusOr<coordinator::CoordinatorState> state = ReadCoordinatorState(dir_);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(*state, written);
  }
}

TEST_F(CoordinatorStateTest, AFullDiskTakesTheNextGenerations) {
  ASSERT_TRUE(WriteCoordinatorState(dir_, {7, -1, {}}).ok());
  FileCallLog log(dir_);
  log.FailCreation(ENOSPC);
  for (const uint64_t generation : {8, 9, 10}) {
    ASSERT_TRUE(WriteCoordinatorState(dir_, {generation, 200, {}}).ok());
    EXPECT_EQ(ReadCoordinatorState(dir_)->generation, generation);
  }
}

TEST_F(CoordinatorStateTest, OneWithoutRollbacksIsRead) {
  EXPECT_TRUE(StatusOfText("{\"format_version\": 1, \"generation\": 7, \"last_committed_step\": 1}").ok());
  EXPECT_EQ(*ReadCoordinatorState(dir_), (coordinator::CoordinatorState{7, 1, {}}));
}

TEST_F(CoordinatorStateTest, OneWithoutManifestsIsRead) {
  EXPECT_TRUE(
      StatusOfText("{\"format_version\": 2, \"generation\": 7, \"last_committed_step\": 1, \"rollbacks\": []}").ok());
  EXPECT_EQ(*ReadCoordinatorState(dir_), (coordinator::CoordinatorState{7, 1, {}}));
}

TEST_F(CoordinatorStateTest, TheManifestsAreChecked) {
  for (const char* manifests :
       {"", ", \"manifests\": {}", ", \"manifests\": [7]",
        ", \"manifests\": [{\"step\": -1, \"manifest_xxh3_128\": \"0123456789abcdef0123456789abcdef\"}]",
        ", \"manifests\": [{\"step\": 1, \"manifest_xxh3_128\": \"0123456789ABCDEF0123456789ABCDEF\"}]",
        ", \"manifests\": [{\"step\": 1, \"manifest_xxh3_128\": \"0123\"}]", ", \"manifests\": [{\"step\": 1}]"}) {
    const absl::Status status = StatusOfText(absl::StrCat(
        "{\"format_version\": 3, \"generation\": 7, \"last_committed_step\": 1, \"rollbacks\": []", manifests, "}"));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << manifests;
    EXPECT_THAT(std::string(status.message()), HasSubstr("coordinator.json")) << manifests;
  }
}

TEST_F(CoordinatorStateTest, TheRunIdIsChecked) {
  for (const char* run_id : {"7", "\"\"", "\"0a4e\"", "\"0A4E456789ABCDEF0123456789ABCDEF\""}) {
    const absl::Status status = StatusOfText(absl::StrCat(
        "{\"format_version\": 3, \"generation\": 7, \"last_committed_step\": 1, \"rollbacks\": [], \"manifests\": [], "
        "\"run_id\": ",
        run_id, "}"));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << run_id;
    EXPECT_THAT(std::string(status.message()), HasSubstr("run_id")) << run_id;
  }
}

TEST_F(CoordinatorStateTest, DamageIsRefusedByName) {
  for (const char* text : {"", "{", "[]", "{\"format_version\": 1}",
                           "{\"format_version\": 1, \"generation\": -4, \"last_committed_step\": 1}",
                           "{\"format_version\": 1, \"generation\": \"4\", \"last_committed_step\": 1}",
                           "{\"format_version\": 1, \"generation\": 18446744073709551615, \"last_committed_step\": 1}",
                           "{\"format_version\": 1, \"generation\": 9223372036854775808, \"last_committed_step\": 1}",
                           "{\"format_version\": 1, \"generation\": 7, \"generation\": 1, \"last_committed_step\": 1}",
                           "{\"format_version\": 1, \"generation\": 7, \"last_committed_step\": 1} x",
                           "{\"format_version\": 2, \"generation\": 7, \"last_committed_step\": 1}"}) {
    absl::Status status = StatusOfText(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(CoordinatorStatePath(dir_))) << text;
  }
}

TEST_F(CoordinatorStateTest, ImpossibleRollbacksAreRefusedByName) {
  for (const char* rollback :
       {"1", R"({"step": 3, "resumed_step": 0, "first_sample": 9, "end_sample": 8, "cause": "nan"})",
        R"({"step": 3, "resumed_step": 0, "first_sample": 8, "end_sample": 9223372036854775807, "cause": "nan"})"}) {
    const absl::Status status = StatusOfText(absl::StrCat(
        R"({"format_version": 2, "generation": 7, "last_committed_step": 1, "rollbacks": [)", rollback, "]}"));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << rollback;
    EXPECT_THAT(std::string(status.message()), HasSubstr(CoordinatorStatePath(dir_))) << rollback;
  }
}

// Each rollback has opened a generation of its own, and goes back to before the step that diverged.
TEST_F(CoordinatorStateTest, MoreRollbacksThanGenerationsAreRefused) {
  coordinator::CoordinatorState state{3, 200, {{210, 200, 3200, 3360, "nan"}, {205, 200, 3440, 3520, "nan"}}};
  ASSERT_TRUE(WriteCoordinatorState(dir_, state).ok());
  EXPECT_TRUE(ReadCoordinatorState(dir_).ok());
  state.generation = 2;
  ASSERT_TRUE(WriteCoordinatorState(dir_, state).ok());
  const absl::Status status = ReadCoordinatorState(dir_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("holds 2 rollbacks, more than a run of generation 2 can have made"));
}

TEST_F(CoordinatorStateTest, ARollbackToTheStepThatDivergedIsRefused) {
  coordinator::CoordinatorState state{9, 200, {{210, 209, 3200, 3360, "nan"}}};
  ASSERT_TRUE(WriteCoordinatorState(dir_, state).ok());
  EXPECT_TRUE(ReadCoordinatorState(dir_).ok());
  state.rollbacks[0].resumed_step = 210;
  ASSERT_TRUE(WriteCoordinatorState(dir_, state).ok());
  EXPECT_EQ(ReadCoordinatorState(dir_).status().code(), absl::StatusCode::kDataLoss);
}

// The rollback that coordinator/divergence.cc makes from samples that a running fleet leaves out.
TEST_F(CoordinatorStateTest, ARollbackThatARunningFleetToldOfIsRead) {
  const coordinator::CoordinatorState state{9, 200, {{0, 0, 3200, 3360, "told"}}};
  ASSERT_TRUE(WriteCoordinatorState(dir_, state).ok());
  EXPECT_EQ(ReadCoordinatorState(dir_).value().rollbacks, state.rollbacks);
}

TEST_F(CoordinatorStateTest, ALaterFormatIsRefused) {
  absl::Status status = StatusOfText("{\"format_version\": 4, \"generation\": 1, \"last_committed_step\": 1}");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 4"));
}

}  // namespace
}  // namespace zerofleet::services

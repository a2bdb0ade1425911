// Segments within this process: what a peer can open and read, and what is refused.
#include "worker/collective/node_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "worker/collective/node_group.h"

namespace zerofleet::collective {
namespace {

using ::testing::HasSubstr;

TEST(NodeSegmentTest, APeerSeesWhatTheOwnerWritesAndReadsItsMemory) {
  const std::unique_ptr<NodeSegment> own = NodeSegment::Create().value();
  const std::unique_ptr<PeerSegment> peer = PeerSegment::Open(own->address()).value();
  own->board().begun = 7;
  EXPECT_EQ(peer->board().begun, 7u);
  std::vector<int> from(3'000'000, 5), to(from.size());
  EXPECT_EQ(peer->Read(to.data(), reinterpret_cast<uint64_t>(from.data()), from.size() * sizeof(int)),
            absl::OkStatus());
  EXPECT_EQ(to, from);
  EXPECT_FALSE(peer->HasEnded());
}

TEST(NodeSegmentTest, WhatIsReadOfARankThatHasLeftIsOfNoUse) {
  const std::unique_ptr<NodeSegment> own = NodeSegment::Create().value();
  const std::unique_ptr<PeerSegment> peer = PeerSegment::Open(own->address()).value();
  own->board().withdrawn = 1;
  int from = 1, to = 0;
  EXPECT_TRUE(absl::IsUnavailable(peer->Read(&to, reinterpret_cast<uint64_t>(&from), sizeof from)));
}

TEST(NodeSegmentTest, AnotherFileOrProcessIsNotTakenForTheRank) {
  const std::unique_ptr<NodeSegment> own = NodeSegment::Create().value();
  const v1::NodeAddress address = own->address();
  const auto refusal = [](const v1::NodeAddress& changed) {
    const auto opened = PeerSegment::Open(changed);
    EXPECT_TRUE(absl::IsUnavailable(opened.status())) << opened.status();
    return std::string(opened.status().message());
  };
  v1::NodeAddress changed = address;
  const int file = open("/dev/null", O_RDONLY);
  changed.set_file(file);
  EXPECT_THAT(refusal(changed), HasSubstr("is not a segment"));
  close(file);
  changed = address;
  changed.set_pid(0x3fffffff);
  EXPECT_THAT(refusal(changed), HasSubstr("pidfd_open"));
  changed = address;
  changed.set_nonce(std::string(16, 'x'));
  EXPECT_THAT(refusal(changed), HasSubstr("is not the rank"));
  const Nonce elsewhere = {};
  changed = address;
  changed.set_nonce_address(reinterpret_cast<uint64_t>(&elsewhere));
  EXPECT_THAT(refusal(changed), HasSubstr("is not the rank"));
  changed.set_nonce_address(1);
  EXPECT_THAT(refusal(changed), HasSubstr("reading a peer's memory"));
}

TEST(NodeSegmentTest, TheEndOfAProcessIsSeen) {
  int end[2];
  ASSERT_EQ(pipe(end), 0);
  const std::unique_ptr<NodeSegment> own = NodeSegment::Create().value();
  v1::NodeAddress address = own->address();  // the child has the segment at the same place
  const pid_t child = fork();
  char byte = 0;
  if (child == 0) _exit(read(end[0], &byte, 1) == 1 ? 0 : 1);
  address.set_pid(child);
  const auto peer = PeerSegment::Open(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_FALSE((*peer)->HasEnded());
  ASSERT_EQ(write(end[1], &byte, 1), 1);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE((*peer)->HasEnded());
  int to = 0;
  EXPECT_EQ((*peer)->Read(&to, address.nonce_address(), sizeof to).message(), "its process has ended");
  for (const int file : end) close(file);
}

TEST(NodeGroupTest, RanksOfSeveralMachinesOrWithoutSegmentsShareNoMemory) {
  v1::NodeAddress here, there;
  here.set_node("boot pid:[1] 0");
  there.set_node("boot pid:[2] 0");
  EXPECT_EQ(NodeGroup::Obstacle({here, here}), "");
  EXPECT_EQ(NodeGroup::Obstacle({here, there}),
            "ranks 0 and 1 are not on one machine, in one PID namespace and of one user");
  EXPECT_EQ(NodeGroup::Obstacle({here, {}}), "rank 1 shares no memory");
}

}  // namespace
}  // namespace zerofleet::collective

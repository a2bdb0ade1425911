// Copies between a device's memory and the host's of data that a run keeps on the other side.
#ifndef ZEROFLEET_WORKER_DEVICE_LINK_TRAFFIC_H_
#define ZEROFLEET_WORKER_DEVICE_LINK_TRAFFIC_H_

#include <cstdint>

namespace zerofleet::device {

struct LinkTraffic {
  struct Direction {
    int64_t copies = 0, bytes = 0;
    void Add(int64_t bytes_copied) {
      ++copies;
      bytes += bytes_copied;
    }
  };
  Direction to_host, to_device;

  LinkTraffic& operator+=(const LinkTraffic& other) {
    to_host.copies += other.to_host.copies;
    to_host.bytes += other.to_host.bytes;
    to_device.copies += other.to_device.copies;
    to_device.bytes += other.to_device.bytes;
    return *this;
  }
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_LINK_TRAFFIC_H_

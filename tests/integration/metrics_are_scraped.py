#!/usr/bin/env python3
"""A real Prometheus server scrapes the coordinator and the workers during a run and finds every metric of docs/metrics.md, with
sensible values; `promtool check metrics` finds no fault with any page.

The coordinator answers on --metrics-port, worker r on the port r + 1 after it.
"""
import signal
import subprocess

import fleet
import prometheus

# Metric -> the least value it may have in the middle of a run.
WORKER_METRICS = {
    "zerofleet_worker_info": 1,
    "zerofleet_worker_step": 1,
    "zerofleet_worker_loss": 0.1,
    "zerofleet_worker_grad_norm": 1e-6,
    "zerofleet_worker_learning_rate": 1e-9,
    "zerofleet_worker_loss_scale": 1,
    "zerofleet_worker_tokens_total": 1,
    "zerofleet_worker_refused_clients_total": 0,
    "zerofleet_worker_step_duration_seconds_count": 1,
    "zerofleet_worker_model_flops_utilization_ratio": 1e-9,
    "zerofleet_worker_memory_bytes": 0,
    "zerofleet_worker_memory_peak_bytes": 0,
    "zerofleet_worker_allocator_reserved_bytes": 0,
    "zerofleet_worker_allocator_allocated_bytes": 0,
    "zerofleet_worker_allocator_largest_free_block_bytes": 0,
    "zerofleet_worker_fragmentation_ratio": 0,
    "zerofleet_worker_collective_bytes_total": 1,
    "zerofleet_worker_collective_duration_seconds_count": 1,
    "zerofleet_worker_collective_bus_bandwidth_bytes_per_second": 0,
}
COORDINATOR_METRICS = {
    "zerofleet_coordinator_generation": 1,
    "zerofleet_coordinator_members": 0,
    "zerofleet_coordinator_heartbeat_age_seconds": 0,
    "zerofleet_coordinator_rendezvous_duration_seconds": 0,
    "zerofleet_coordinator_recovery_duration_seconds": 0,
    "zerofleet_coordinator_rank_failures_total": 0,
    "zerofleet_coordinator_refused_clients_total": 0,
    "zerofleet_coordinator_stale_messages_rejected_total": 0,
    "zerofleet_coordinator_lost_steps_total": 0,
    "zerofleet_coordinator_checkpoint_last_committed_step": 1,
    "zerofleet_coordinator_checkpoint_last_commit_timestamp_seconds": 1.6e9,
    "zerofleet_coordinator_checkpoint_bytes_total": 1,
    "zerofleet_coordinator_checkpoint_verify_failures_total": 0,
    "zerofleet_coordinator_goodput_ratio": 0,
    "zerofleet_build_info": 1,
}


class MetricsAreScraped(prometheus.PrometheusTest):
    WORKERS = 2

    def setUp(self):
        super().setUp()
        self.port = fleet.free_port(self.WORKERS + 1)
        self.ports = range(self.port, self.port + self.WORKERS + 1)

    def test_a_run_is_seen(self):
        self.start_prometheus(self.ports)
        config = self.config(steps=1_000_000, parallel={"workers": self.WORKERS}, checkpoint={"every_steps": 50, "keep": 1})
        process = self.start("train", self.write_config(config), "--metrics-port", self.port)
        self.wait_for("a committed checkpoint in Prometheus", lambda: any(
            float(each["value"][1]) >= 50 for each in self.query("zerofleet_coordinator_checkpoint_last_committed_step")))
        self.wait_for("all targets up", lambda: [each["value"][1] for each in self.query("up")] == ["1"] * (self.WORKERS + 1))
        self.wait_for("every worker's step", lambda: len(self.query("zerofleet_worker_step > 50")) == self.WORKERS)

        for name, least in {**WORKER_METRICS, **COORDINATOR_METRICS}.items():
            with self.subTest(metric=name):
                # A late page is missing until the next scrape.
                self.wait_for(f"{name} of {least} or more", lambda: max(
                    (float(each["value"][1]) for each in self.query(name)), default=-1) >= least)
        self.check_sense()

        for port in self.ports:
            page = prometheus.get(f"http://127.0.0.1:{port}/metrics")
            checked = subprocess.run([prometheus.tool("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""), f"port {port}")
            self.assertIn("zerofleet_build_info", page)
            for probe in ("healthz", "readyz"):
                prometheus.get(f"http://127.0.0.1:{port}/{probe}")  # raises unless it answers 200

        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, err[-2000:])

    def check_sense(self):
        """Values that must be consistent with each other."""
        loss = [float(each["value"][1]) for each in self.query("zerofleet_worker_loss")]
        self.assertTrue(all(0 < value < 8 for value in loss), loss)
        self.wait_for("every phase", lambda: {"forward", "backward", "reduce", "optimizer", "gather", "data", "checkpoint"} <= {
            each["metric"]["phase"] for each in self.query("zerofleet_worker_step_duration_seconds_count")})
        ratio = [float(each["value"][1]) for each in self.query("zerofleet_worker_fragmentation_ratio")]
        self.assertTrue(all(0 <= value <= 1 for value in ratio), ratio)
        self.wait_for("every category", lambda: {
            "parameters", "gradients", "optimizer", "activations", "gathered", "buffers", "ema"} <= {
                each["metric"]["category"] for each in self.query('zerofleet_worker_memory_bytes{space="device"}')})
        over_peak = self.query("zerofleet_worker_memory_bytes > zerofleet_worker_memory_peak_bytes")
        self.assertEqual(over_peak, [], "more memory in use than the peak")
        self.wait_for("tokens per second, which take two scrapes",
                      lambda: self.query("sum(rate(zerofleet_worker_tokens_total[10s])) > 0"))


if __name__ == "__main__":
    fleet.main()

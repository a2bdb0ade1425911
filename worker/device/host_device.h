// Marks a function that runs both on the host and in CUDA kernels: one source, tested everywhere.
#ifndef ZEROFLEET_WORKER_DEVICE_HOST_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_HOST_DEVICE_H_

#ifdef __CUDACC__
#define ZF_HOST_DEVICE __host__ __device__
#else
#define ZF_HOST_DEVICE
#endif

#endif  // ZEROFLEET_WORKER_DEVICE_HOST_DEVICE_H_

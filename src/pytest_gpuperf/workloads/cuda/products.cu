// C = A B of fp32, row by row: A is M x K, B is K x N. Five ways to write the same sum, four of
// them slow, each for one reason. Plain CUDA C without headers, so that NVRTC takes it as it is.

#ifndef TILE
#define TILE 32
#endif
#ifndef COARSE
#define COARSE 4
#endif

// Neighbouring threads take neighbouring rows: a warp's loads of A, and its stores, are K (and N)
// elements apart, each in a memory sector of its own.
extern "C" __global__ void naive(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.x * TILE + threadIdx.x;
  int column = blockIdx.y * TILE + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
  c[(size_t)row * n + column] = sum;
}

// Neighbouring threads take neighbouring columns: a warp's loads of B are one run of memory, and
// its loads of A one address.
extern "C" __global__ void coalesced(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
  c[(size_t)row * n + column] = sum;
}

// As coalesced, but odd columns sum from the other end: both halves of a warp run one after the
// other, with half of its threads idle each time.
extern "C" __global__ void divergent(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  if (threadIdx.x % 2 == 0) {
    for (int i = 0; i < k; ++i) sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
  } else {
    for (int i = k - 1; i >= 0; --i) sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
  }
  c[(size_t)row * n + column] = sum;
}

// Each block keeps a tile of A and one of B in shared memory: every element is loaded K/TILE times
// less often.
extern "C" __global__ void tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[TILE][TILE];
  __shared__ float tile_b[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y;
  int column = blockIdx.x * TILE + x;
  int row = blockIdx.y * TILE + y;
  float sum = 0.0f;
  for (int start = 0; start < k; start += TILE) {
    tile_a[y][x] = row < m && start + x < k ? a[(size_t)row * k + start + x] : 0.0f;
    tile_b[y][x] = start + y < k && column < n ? b[(size_t)(start + y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  if (row < m && column < n) c[(size_t)row * n + column] = sum;
}

// As tiled, and each thread makes COARSE results of one row: a tile of A serves COARSE tiles of B.
extern "C" __global__ void coarsened(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[TILE][TILE];
  __shared__ float tile_b[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y;
  int first = blockIdx.x * TILE * COARSE + x;
  int row = blockIdx.y * TILE + y;
  float sums[COARSE];
  for (int j = 0; j < COARSE; ++j) sums[j] = 0.0f;
  for (int start = 0; start < k; start += TILE) {
    tile_a[y][x] = row < m && start + x < k ? a[(size_t)row * k + start + x] : 0.0f;
    for (int j = 0; j < COARSE; ++j) {
      int column = first + j * TILE;
      tile_b[y][x] = start + y < k && column < n ? b[(size_t)(start + y) * n + column] : 0.0f;
      __syncthreads();
      for (int i = 0; i < TILE; ++i) sums[j] += tile_a[y][i] * tile_b[i][x];
      __syncthreads();
    }
  }
  for (int j = 0; j < COARSE; ++j) {
    int column = first + j * TILE;
    if (row < m && column < n) c[(size_t)row * n + column] = sums[j];
  }
}

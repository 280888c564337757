// Matrix products in row-major storage, by precision.
#pragma once

#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "../core/lanes.h"

namespace hastings {

enum class Op { kNone, kTranspose };

inline CBLAS_TRANSPOSE to_cblas(Op op) { return op == Op::kNone ? CblasNoTrans : CblasTrans; }

inline void blas_gemm(Op op_a, Op op_b, int m, int n, int k, const float* a, int lda, const float* b, int ldb,
                      float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, to_cblas(op_a), to_cblas(op_b), m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
}
inline void blas_gemm(Op op_a, Op op_b, int m, int n, int k, const double* a, int lda, const double* b, int ldb,
                      double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, to_cblas(op_a), to_cblas(op_b), m, n, k, 1.0, a, lda, b, ldb, beta, c, ldc);
}

constexpr int64_t kThin = 4;

// ---- Products of thin matrices, for which the library's packing costs more than it saves ----

// kRows rows of C = A B + beta C, a tile of them by two vectors in registers. A's element (i, l) is a[i * ai + l * al].
template <int kRows, class T>
void row_tiles(int64_t n, int64_t k, const T* a, int64_t ai, int64_t al, const T* b, int64_t ldb, T beta, T* c,
               int64_t ldc) {
  using L = Lanes<T>;
  int64_t j = 0;
  for (; j + 2 * L::kCount <= n; j += 2 * L::kCount) {
    typename L::Vector sum[kRows][2] = {};
    if (beta != 0) {
      for (int i = 0; i < kRows; ++i) {
        sum[i][0] = L::load(c + i * ldc + j);
        sum[i][1] = L::load(c + i * ldc + j + L::kCount);
      }
    }
    for (int64_t l = 0; l < k; ++l) {
      const auto b0 = L::load(b + l * ldb + j), b1 = L::load(b + l * ldb + j + L::kCount);
      for (int i = 0; i < kRows; ++i) {
        const T f = a[i * ai + l * al];
        sum[i][0] += f * b0;
        sum[i][1] += f * b1;
      }
    }
    for (int i = 0; i < kRows; ++i) {
      L::store(c + i * ldc + j, sum[i][0]);
      L::store(c + i * ldc + j + L::kCount, sum[i][1]);
    }
  }
  if (j == n) return;
  for (int i = 0; i < kRows; ++i) {
    T* row = c + i * ldc;
    if (beta == 0) std::fill(row + j, row + n, T(0));
    for (int64_t l = 0; l < k; ++l) {
      const T f = a[i * ai + l * al];
      for (int64_t m = j; m < n; ++m) row[m] += f * b[l * ldb + m];
    }
  }
}

// C = A B + beta C, B and C with long rows, and A thin one way or the other.
template <class T>
void scaled_rows(Op op_a, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
                 T* c, int64_t ldc) {
  const int64_t ai = op_a == Op::kNone ? lda : 1, al = op_a == Op::kNone ? 1 : lda;
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) row_tiles<4>(n, k, a + i * ai, ai, al, b, ldb, beta, c + i * ldc, ldc);
  for (; i < m; ++i) row_tiles<1>(n, k, a + i * ai, ai, al, b, ldb, beta, c + i * ldc, ldc);
}

// C += A B^T for kRows rows of A and four of B, all of length k; C's element (i, j) is c[i * ci + j * cj].
template <int kRows, class T>
void dot_tile(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ci, int64_t cj) {
  using L = Lanes<T>;
  typename L::Vector sum[kRows][4] = {};
  int64_t l = 0;
  for (; l + L::kCount <= k; l += L::kCount) {
    typename L::Vector x[kRows];
    for (int i = 0; i < kRows; ++i) x[i] = L::load(a + i * lda + l);
    for (int j = 0; j < 4; ++j) {
      const auto y = L::load(b + j * ldb + l);
      for (int i = 0; i < kRows; ++i) sum[i][j] += x[i] * y;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    T total[4];
    L::totals(sum[i], total);
    for (int64_t r = l; r < k; ++r) {
      for (int j = 0; j < 4; ++j) total[j] += a[i * lda + r] * b[j * ldb + r];
    }
    for (int j = 0; j < 4; ++j) c[i * ci + j * cj] += total[j];
  }
}

// C = A B^T + beta C with long rows in A and B: dot products.
template <class T>
void dot_products(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c,
                  int64_t ldc) {
  if (beta == 0) {
    for (int64_t i = 0; i < m; ++i) std::fill(c + i * ldc, c + i * ldc + n, T(0));
  }
  int64_t ci = ldc, cj = 1;
  if (n % 4 != 0 && m % 4 == 0) {  // four at a time along the side that has fours
    std::swap(m, n);
    std::swap(a, b);
    std::swap(lda, ldb);
    std::swap(ci, cj);
  }
  const int64_t fours = n - n % 4;
  int64_t i = 0;
  for (; i + 3 <= m; i += 3) {
    for (int64_t j = 0; j < fours; j += 4)
      dot_tile<3>(k, a + i * lda, lda, b + j * ldb, ldb, c + i * ci + j * cj, ci, cj);
  }
  for (; i < m; ++i) {
    for (int64_t j = 0; j < fours; j += 4)
      dot_tile<1>(k, a + i * lda, lda, b + j * ldb, ldb, c + i * ci + j * cj, ci, cj);
  }
  for (int64_t j = fours; j < n; ++j) {
    for (i = 0; i < m; ++i) c[i * ci + j * cj] += Lanes<T>::dot(a + i * lda, b + j * ldb, k);
  }
}

// C [m, n] = A B + beta C (beta 0 or 1), with A [m, k] and B [k, n] after their ops; lda, ldb as stored. Networks of
// few inputs or outputs make thin matrices, for which the library's blocking only costs.
template <class T>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
          T* c, int64_t ldc) {
  if (op_b == Op::kNone && (k <= kThin || m <= kThin) && n > kThin)
    return scaled_rows(op_a, m, n, k, a, lda, b, ldb, beta, c, ldc);
  if (op_a == Op::kNone && op_b == Op::kTranspose && (n <= kThin || m <= kThin) && k > kThin) {
    return dot_products(m, n, k, a, lda, b, ldb, beta, c, ldc);
  }
  blas_gemm(op_a, op_b, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), a, static_cast<int>(lda), b,
            static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

// B [m, n] := op(L)^-1 B, L [m, m] lower triangular.
inline void solve_lower(Op op, int64_t m, int64_t n, const float* l, float* b) {
  cblas_strsm(CblasRowMajor, CblasLeft, CblasLower, to_cblas(op), CblasNonUnit, static_cast<int>(m),
              static_cast<int>(n), 1.0f, l, static_cast<int>(m), b, static_cast<int>(n));
}
inline void solve_lower(Op op, int64_t m, int64_t n, const double* l, double* b) {
  cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, to_cblas(op), CblasNonUnit, static_cast<int>(m),
              static_cast<int>(n), 1.0, l, static_cast<int>(m), b, static_cast<int>(n));
}

}  // namespace hastings

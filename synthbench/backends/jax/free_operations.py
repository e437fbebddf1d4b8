"""Which JAX primitives contain no matrix product or convolution, and so cost no FLOPs."""

from __future__ import annotations

# All other primitives without a rule are reported as uncounted: Fourier transforms,
# decompositions, callbacks, foreign calls, hand-written kernels.
FREE = frozenset(
    """
    abs accum_grad_in_ref acos acosh add add_any addupdate after_all all_gather
    all_gather_invariant all_gather_reduced all_to_all and approx_top_k argmax argmin asin asinh
    atan atan2 atanh axis_index bessel_i0e bessel_i1e bitcast_convert_type broadcast_in_dim
    broadcast_to cbrt ceil clamp clz complex concatenate conj convert_element_type copy copy_p cos
    cosh create_token cumlogsumexp cummax cummin cumprod cumsum debug_callback debug_print
    device_put digamma dim_as_value dimension_size div dynamic_slice dynamic_update_slice empty
    empty2 eq eq_to erf erf_inv erfc exp exp2 expm1 floor free_ref freeze from_edtype gather ge get
    gt igamma igamma_grad_a igammac imag inspect_sharding integer_pow iota iota_2x32_shape
    is_finite layout_constraint le le_to lgamma log log1p logistic lt lt_to
    lu_pivots_to_permutation max min mul mulhi name ne neg new_ref nextafter not opt_barrier
    optimization_barrier or pad pbroadcast philox2x32 philox4x32 platform_index pmax pmin polygamma
    population_count pow ppermute psum psum_invariant pvary random_bits random_clone
    random_fold_in random_gamma random_seed random_split random_unwrap random_wrap real reciprocal
    reduce reduce_and reduce_max reduce_min reduce_or reduce_precision reduce_prod reduce_scatter
    reduce_sum reduce_window reduce_window_max reduce_window_min reduce_window_sum reduce_xor
    reduced_vary_cast_p regularized_incomplete_beta rem reshape reshard rev rng_bit_generator
    rng_uniform round rsqrt scatter scatter-add scatter-max scatter-min scatter-mul scatter-sub
    scatter_add scatter_max scatter_min scatter_mul scatter_sub select_and_gather_add
    select_and_scatter select_and_scatter_add select_n shape_assertion sharding_constraint
    shift_left shift_right_arithmetic shift_right_logical sign sin sinh slice sort split sqrt
    square squeeze stack stop_gradient sub swap tan tanh threefry2x32 threefry4x32 tile to_edtype
    top_k transpose unreduced_psum unstack vary_unreduced_cast_p with_memory_space_constraint xor
    zeros_like zeta
    """.split()
)


def is_free(operation: str) -> bool:
    """Whether a primitive is known to cost no FLOPs."""
    return operation in FREE

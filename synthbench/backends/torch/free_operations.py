"""Which ATen operations contain no matrix product or convolution, and so cost no FLOPs."""

from __future__ import annotations

import torch

# In addition to what ATen tags as pointwise or declares as a view. All other operations are
# reported as uncounted: Fourier transforms, recurrent cells, decompositions, distances, custom
# kernels.
FREE = frozenset(
    """
    Bool Float Int ScalarImplicit __and__ __or__ _adaptive_avg_pool2d
    _adaptive_avg_pool2d_backward _amp_foreach_non_finite_check_and_unscale _amp_update_scale
    _assert_async _assert_tensor_metadata _cast_Double _cast_Float _conj_copy _cummax_helper
    _cummin_helper _efficientzerotensor _embedding_bag _fused_adagrad _fused_adam _fused_adamw
    _fused_dropout _fused_rms_norm _fused_rms_norm_backward _fused_sdp_choice _fused_sgd
    _linalg_check_errors
    _fw_primal_copy _index_put_impl _is_all_true _is_any_true _local_scalar_dense _log_softmax
    _log_softmax_backward_data _logcumsumexp _make_dual_copy _masked_scale _masked_softmax
    _masked_softmax_backward _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _no_grad_fill _no_grad_zero _pin_memory _prelu_kernel
    _prelu_kernel_backward _reshape_copy _safe_softmax _shape_as_tensor _softmax
    _softmax_backward_data _stack _to_copy _unique2 _unsafe_index _unsafe_index_put
    _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view _weight_norm
    _weight_norm_interface _weight_norm_interface_backward abs absolute adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d addr alias_copy all allclose
    alpha_dropout amax amin aminmax any arange argmax argmin argsort as_strided_copy
    as_strided_scatter atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool2d_backward
    batch_norm batch_norm_backward bernoulli bincount block_diag broadcast_tensors bucketize cat
    chunk clone column_stack concat concatenate constant_pad_nd contiguous copy count_nonzero
    cross_entropy_loss cudnn_batch_norm cudnn_batch_norm_backward cummax cummaxmin_backward cummin
    cumprod cumprod_backward cumsum detach_copy diag diag_embed diagflat diagonal_backward
    diagonal_copy diagonal_scatter diff dim divide dropout dstack elu_backward embedding
    embedding_backward embedding_bag embedding_dense_backward embedding_renorm empty empty_like
    empty_permuted empty_strided equal exponential eye fill fill_diagonal flip fliplr flipud
    floor_divide frobenius_norm full full_like gather gather_backward ger glu glu_backward greater
    greater_equal group_norm hardshrink_backward hardsigmoid_backward hardswish
    hardswish_backward hardtanh_backward hstack huber_loss huber_loss_backward
    im2col col2im index index_add index_copy index_fill index_put index_reduce index_select
    index_select_backward instance_norm is_nonzero is_same_size isclose isfinite isin isinf isnan
    isreal item kl_div kron kthvalue l1_loss layer_norm leaky_relu_backward less less_equal lift
    lift_fresh lift_fresh_copy linalg_cross linalg_norm linalg_vecdot linalg_vector_norm linspace
    log_sigmoid log_sigmoid_backward log_sigmoid_forward log_softmax logcumsumexp logsumexp
    logspace masked_fill masked_scatter masked_scatter_backward masked_select
    masked_select_backward max max_pool1d max_pool2d max_pool2d_with_indices
    max_pool2d_with_indices_backward mean median meshgrid min miopen_batch_norm
    miopen_batch_norm_backward mish_backward mode movedim mse_loss mse_loss_backward msort
    multinomial multiply nan_to_num nanmean nansum narrow_copy native_batch_norm
    native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward native_norm negative
    new_empty new_empty_strided new_full new_ones new_zeros nll_loss nll_loss_backward
    nll_loss_forward nll_loss_nd nonzero nonzero_static norm norm_except_dim normal not_equal
    numel numpy_T one_hot ones ones_like outer pad pad_sequence permute_copy pixel_shuffle
    pixel_unshuffle prelu prod put rand rand_like randint randint_like randn randn_like random
    randperm reflection_pad1d reflection_pad1d_backward relu6 renorm repeat repeat_interleave
    replication_pad1d replication_pad1d_backward requires_grad reshape_as resize resize_as
    result_type rms_norm roll rot90 rrelu rsub scalar_tensor scatter scatter_add scatter_reduce
    searchsorted segment_reduce select_backward select_copy select_scatter set silu size
    slice_backward slice_copy slice_scatter smooth_l1_loss smooth_l1_loss_backward softmax
    softplus_backward softshrink_backward sort split_copy split_with_sizes_copy squeeze_copy stack
    std std_mean stride subtract sum sum_to_size sym_numel sym_size sym_storage_offset sym_stride
    t_copy take take_along_dim tensor tile to topk trace trace_backward transpose_copy tril
    tril_indices triu triu_indices true_divide type_as unbind_copy unflatten unfold_backward
    unfold_copy uniform unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes
    unsqueeze_copy upsample_bilinear2d upsample_nearest1d upsample_nearest2d
    value_selecting_reduction_backward var var_mean view_as_complex_copy view_as_real_copy
    view_copy vstack where zero zeros zeros_like
    """.split()
)
FREE_NAMESPACES = frozenset({"prim", "prims", "profiler"})


def is_free(operation: str) -> bool:
    """Whether an operation (`aten::name`, in place or not) is known to cost no FLOPs."""
    namespace, _, name = operation.partition("::")
    if namespace in FREE_NAMESPACES:
        # Python and scripted functions hide what they do.
        return not name.startswith(("PythonOp", "CallFunction"))
    if namespace != "aten":
        return False
    plain = name if name.endswith("__") else name.removesuffix("_")
    if plain in FREE or plain.startswith("_foreach_"):
        return True
    packet = getattr(torch.ops.aten, plain, None) or getattr(torch.ops.aten, name, None)
    if packet is None:
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return any(torch.Tag.pointwise in each.tags or each.is_view for each in overloads)

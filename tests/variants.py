"""Every variant under test: what the catalogue shows, and every option that changes a pass."""

from synthbench.mixers.catalog import SHOWCASE

VARIANTS = [
    *SHOWCASE,
    "Fix+D",
    "(R+V)(mixing=layer)",
    "(FR+D+V)(mixing=sum)",
    "(D+V)(bias=true)",
    "D(sharing=heads)",
    "D(sharing=full, bias=true)",
    "(D(sharing=heads, tie_query=true)+V)(bias=true)",
    "FD(a=2, b=6)",
    "FD(hidden=separate, bias=true)",
    "R(init=mesh)",
    "(conv+bottleneck+glu)(bias=true)",
    "conv_relu_conv(first=2, second=5, bias=true)",
    "bottleneck_conv(width=3, first=1, second=4, bias=true)",
    "linformer(rank=3, sharing=kv)",
    "light_conv(width=4)",
    "light_conv(width=5, layout=mesh)",
    "dynamic_conv(width=6, layout=mesh)",
]

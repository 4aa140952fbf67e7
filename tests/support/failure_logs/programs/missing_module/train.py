import flash_attn

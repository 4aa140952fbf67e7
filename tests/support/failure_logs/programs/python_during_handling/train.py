try:
    import flash_attn
except ImportError:
    attention = {}['sdpa']

import httpx
httpx.get('http://127.0.0.1:9/v1/models')

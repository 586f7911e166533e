"""A Django service that offers a function as a tool: pip install django; python django_service.py"""

import os

import django
import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from jackfield import discovery

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY="of-this-example")
django.setup()
OPENING = {"monday": "closed", "tuesday": "10 to 18"}


def list_opening(_request: HttpRequest) -> JsonResponse:
    """The service's own endpoint."""
    return JsonResponse(OPENING)


def opening_hours(day: str) -> str:
    """When the museum is open."""
    return OPENING[day]


provider = discovery.Provider([opening_hours], name="museum", key=os.environ.get("SHOP_KEY"))


@csrf_exempt  # requests carry a key, not a cookie
async def tools(request: HttpRequest) -> HttpResponse:
    """The endpoints of the Tool Discovery Protocol."""
    reply = await provider.respond(request.method, request.path, headers=request.headers, body=request.body)
    return HttpResponse(reply.body, status=reply.status, headers=reply.headers)


urlpatterns = [path("opening", list_opening), re_path(r"^api/v1/(?:tools|calls)(?:/.*)?$", tools)]

if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8703"))
    uvicorn.run(get_asgi_application(), host="127.0.0.1", port=port, log_level="warning", lifespan="off")

#include "schedule/formats/draw_svg.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace stagecoach::schedule {
namespace {

constexpr size_t kMaxDrawn = 200'000;
constexpr double kLeft = 52;
constexpr double kRight = 16;
constexpr double kTop = 64;
constexpr double kRowHeight = 26;
constexpr double kRowGap = 6;
constexpr double kCurveHeight = 120;
// Boxes narrower than these have no microbatch, no kind written in them.
constexpr double kRoomForNumber = 15;
constexpr double kRoomForKind = 21;

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Hues of neighbours are far apart: the golden angle.
double Hue(int index) { return std::fmod(index * 137.508, 360); }

// Of a box: forwards light, backwards dark, a worker's later stages greyer.
std::string Fill(const Action& action, int chunk) {
  double lightness = 74;
  if (action.kind == ActionKind::kBackward) lightness = 52;
  if (action.kind == ActionKind::kBackwardInput) lightness = 58;
  if (action.kind == ActionKind::kBackwardWeight) lightness = 88;
  const double saturation = std::max(25, 75 - 30 * chunk);
  return absl::StrFormat("hsl(%.0f,%.0f%%,%.0f%%)",
                         Hue(action.microbatch.value()), saturation, lightness);
}

// How many chunks a worker has in flight from a time on.
using Curve = std::vector<std::pair<double, int>>;

Curve InFlight(const std::vector<TimelineEntry>& timeline, bool has_backward) {
  Curve curve = {{0, 0}};
  // A backward that ends as a forward starts is no dent.
  const auto set = [&curve](double time, int count) {
    if (curve.back().first != time) curve.emplace_back(time, count);
    curve.back().second = count;
  };
  int now = 0;
  for (const TimelineEntry& entry : timeline) {
    const ActionKind kind = entry.action.kind;
    if (kind == ActionKind::kForward) set(entry.start, ++now);
    const bool ends = has_backward ? kind == ActionKind::kBackward ||
                                         kind == ActionKind::kBackwardWeight
                                   : kind == ActionKind::kForward;
    if (ends) set(entry.end, --now);
  }
  return curve;
}

class Drawing {
 public:
  Drawing(const Schedule& schedule, const SvgOptions& options,
          const SimulateResult& result)
      : schedule_(schedule),
        options_(options),
        result_(result),
        scale_((options.width - kLeft - kRight) /
               std::max(result.makespan, 1e-12)) {}

  std::string Draw();

 private:
  void Begin();
  void Heading();
  void Legend();
  void Rows();
  void Row(size_t worker);
  void Box(const TimelineEntry& entry, double y);
  void Curves();
  void CurveOf(size_t worker, const Curve& curve, double y, int highest);
  void Ticks(double y);
  void Text(double x, double y, absl::string_view text,
            absl::string_view more = "") {
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>\n", x,
                          y, more, Escaped(text));
  }
  double X(double time) const { return kLeft + time * scale_; }
  double CurveTop() const {
    return kTop + (kRowHeight + kRowGap) * schedule_.workers + 46;
  }
  double Height() const { return CurveTop() + kCurveHeight + 40; }

  const Schedule& schedule_;
  const SvgOptions& options_;
  const SimulateResult& result_;
  const double scale_;
  std::vector<int> chunks_;  // by stage
  bool has_backward_ = false;
  std::string svg_;
};

void Drawing::Begin() {
  absl::StrAppendFormat(
      &svg_,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
      "viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<defs><pattern id=\"wait\" width=\"6\" height=\"6\" "
      "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
      "<rect width=\"6\" height=\"6\" fill=\"#f1f1f1\"/>"
      "<rect width=\"2\" height=\"6\" fill=\"#cfcfcf\"/></pattern></defs>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      options_.width, Height(), options_.width, Height());
}

void Drawing::Heading() {
  const std::string title =
      !options_.title.empty()
          ? options_.title
          : absl::StrCat(
                schedule_.kind, ", ", schedule_.workers, " workers, ",
                schedule_.stages_per_worker,
                schedule_.stages_per_worker == 1 ? " stage" : " stages",
                " each, ", schedule_.microbatches, " microbatches");
  Text(kLeft, 20, title, " font-size=\"15\" font-weight=\"bold\"");
  Text(kLeft, 38,
       absl::StrFormat("step %.4g, of which workers wait %.1f %%",
                       result_.makespan, 100 * result_.bubble_ratio),
       " fill=\"#444\"");
}

void Drawing::Legend() {
  std::string legend =
      "F forward, B backward, I input gradient, W weight gradient; number and "
      "colour: microbatch; hatched: waits";
  if (schedule_.stages_per_worker > 1) {
    legend += "; greyer: the worker's later stages";
  }
  Text(kLeft, 54, legend, " fill=\"#444\"");
}

void Drawing::Box(const TimelineEntry& entry, double y) {
  const double width = (entry.end - entry.start) * scale_;
  absl::StrAppendFormat(
      &svg_,
      "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" "
      "fill=\"%s\" stroke=\"white\" stroke-width=\"%.1f\"><title>%s, %.4g to "
      "%.4g</title></rect>\n",
      X(entry.start), y, width, kRowHeight,
      Fill(entry.action, chunks_[entry.action.stage.index()]),
      width > 4 ? 0.8 : 0.1, ToString(entry.action), entry.start, entry.end);
  if (width < kRoomForNumber) return;
  const std::string number = absl::StrCat(entry.action.microbatch.value());
  const std::string label =
      width < kRoomForKind
          ? number
          : absl::StrCat(ActionKindName(entry.action.kind), number);
  const bool dark = entry.action.kind == ActionKind::kBackward ||
                    entry.action.kind == ActionKind::kBackwardInput;
  Text(X(entry.start) + width / 2, y + kRowHeight / 2 + 4, label,
       dark ? " text-anchor=\"middle\" fill=\"white\""
            : " text-anchor=\"middle\"");
}

void Drawing::Row(size_t worker) {
  const double y = kTop + static_cast<double>(worker) * (kRowHeight + kRowGap);
  Text(kLeft - 8, y + kRowHeight / 2 + 4, absl::StrCat("w", worker),
       " text-anchor=\"end\"");
  absl::StrAppendFormat(&svg_,
                        "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                        "height=\"%.0f\" fill=\"url(#wait)\"/>\n",
                        kLeft, y, result_.makespan * scale_, kRowHeight);
  for (const TimelineEntry& entry : result_.timeline[worker]) Box(entry, y);
}

void Drawing::Rows() {
  for (size_t w = 0; w < result_.timeline.size(); ++w) Row(w);
  Ticks(kTop + (kRowHeight + kRowGap) * schedule_.workers);
}

// About ten round numbers of time.
void Drawing::Ticks(double y) {
  if (result_.makespan <= 0) return;
  const double rough = result_.makespan / 10;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (step < rough) step = factor * power;
  }
  const auto last = static_cast<int>(result_.makespan * (1 + 1e-9) / step);
  for (int tick = 0; tick <= last; ++tick) {
    const double at = tick * step;
    absl::StrAppendFormat(
        &svg_,
        "<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\" "
        "stroke=\"#888\"/>\n",
        X(at), y, X(at), y + 4);
    Text(X(at), y + 15, absl::StrFormat("%.4g", at),
         " text-anchor=\"middle\" fill=\"#444\"");
  }
}

void Drawing::CurveOf(size_t worker, const Curve& curve, double y,
                      int highest) {
  const auto height = [&](int count) {
    return y + kCurveHeight * (1 - static_cast<double>(count) / highest);
  };
  std::string path = absl::StrFormat("M%.2f %.1f", X(0), height(0));
  for (const auto& [time, count] : curve) {
    absl::StrAppendFormat(&path, "H%.2fV%.1f", X(time), height(count));
  }
  absl::StrAppendFormat(&path, "H%.2f", X(result_.makespan));
  const std::string colour =
      absl::StrFormat("hsl(%.0f,70%%,42%%)", Hue(static_cast<int>(worker)));
  absl::StrAppendFormat(&svg_,
                        "<path d=\"%s\" fill=\"none\" stroke=\"%s\" "
                        "stroke-width=\"1.6\"/>\n",
                        path, colour);
  // Names stand in one line below the curves.
  if (worker < 16) {
    Text(
        kLeft + 60 * static_cast<double>(worker), y + kCurveHeight + 18,
        absl::StrCat("w", worker, ": ", result_.workers[worker].peak_in_flight),
        absl::StrFormat(" fill=\"%s\" font-weight=\"bold\"", colour));
  }
}

void Drawing::Curves() {
  const double y = CurveTop();
  int highest = 1;
  for (const WorkerTimes& worker : result_.workers) {
    highest = std::max(highest, worker.peak_in_flight);
  }
  Text(kLeft, y - 10,
       "In flight: chunks whose forward is done or running and whose backward "
       "is not done (below: the peaks)",
       " fill=\"#444\"");
  for (const int count : {0, (highest + 1) / 2, highest}) {
    const double line =
        y + kCurveHeight * (1 - static_cast<double>(count) / highest);
    absl::StrAppendFormat(
        &svg_,
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\" "
        "stroke=\"#ddd\"/>\n",
        kLeft, line, X(result_.makespan), line);
    Text(kLeft - 8, line + 4, absl::StrCat(count), " text-anchor=\"end\"");
  }
  for (size_t w = 0; w < result_.timeline.size(); ++w) {
    CurveOf(w, InFlight(result_.timeline[w], has_backward_), y, highest);
  }
}

std::string Drawing::Draw() {
  std::vector<int> held(static_cast<size_t>(schedule_.workers), 0);
  for (const WorkerIndex worker : schedule_.placement) {
    chunks_.push_back(held[worker.index()]++);
  }
  for (const auto& timeline : result_.timeline) {
    for (const TimelineEntry& entry : timeline) {
      has_backward_ |= entry.action.kind != ActionKind::kForward;
    }
  }
  Begin();
  Heading();
  Legend();
  Rows();
  Curves();
  svg_ += "</svg>\n";
  return std::move(svg_);
}

}  // namespace

absl::StatusOr<std::string> DrawSvg(const Schedule& schedule,
                                    const SvgOptions& options) {
  size_t compute = 0;
  for (const std::vector<Action>& list : schedule.actions) {
    for (const Action& action : list) compute += IsCompute(action.kind) ? 1 : 0;
  }
  if (compute > kMaxDrawn || options.width < 200) {
    return absl::InvalidArgumentError(
        absl::StrCat(compute, " actions in ", options.width,
                     " pixels are no picture; at most ", kMaxDrawn,
                     " actions and at least 200 pixels: take fewer workers or "
                     "microbatches"));
  }
  SC_ASSIGN_OR_RETURN(const SimulateResult result,
                      Simulate(schedule, options.simulate));
  return Drawing(schedule, options, result).Draw();
}

}  // namespace stagecoach::schedule
